// Ends opencode when its model refuses to work for a while. What is printed
// has the form of opencode's own errors.
const attempts = 7
const patience = 60000 // milliseconds

export const Ralph = async () => ({
  event: async ({ event }) => {
    const status = event.type === "session.status" ? event.properties.status : undefined
    if (status?.type !== "retry") return
    const wait = status.next - Date.now()
    if (status.attempt < attempts && !(wait > patience)) return
    const next = wait > patience ? status.next : undefined
    const error = { name: "RetryError", data: { message: String(status.message), next } }
    process.stdout.write(JSON.stringify({ type: "error", timestamp: Date.now(), error }) + "\n", () => process.exit(1))
  },
})
