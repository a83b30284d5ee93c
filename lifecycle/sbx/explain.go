package sbx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

var errNoPolicy = errors.New("the network policy of sbx is not set: set one with \"sbx policy init balanced\"")

// Explain implements [microvm.Dialect]. The texts are those that were seen
// (contract, sections 5.3, 7 and 9).
func (d *Dialect) Explain(c *microvm.CallError) error {
	switch {
	case c.Limit > 0:
		return fmt.Errorf("%w. Look with \"sbx diagnose\"; \"sbx daemon restart\" often mends it", c)
	case c.Says("due to a network issue"):
		return errors.New("sbx could not reach Docker to renew your login: look at the network, then try again, or log in with \"sbx login\"")
	case c.Says("not authenticated to docker", "failed to refresh token"):
		return errors.New("sbx is not logged in to Docker, which it needs for everything: log in with \"sbx login\"")
	case c.Says("sbx policy init"):
		return errNoPolicy
	case c.Says("backend unavailable"):
		return errors.New("sbx has lost its engine: restart it with \"sbx daemon restart\"")
	case c.Says("ensure daemon", "daemon failed to start", "cannot connect to the", "dial unix"):
		return fmt.Errorf("the daemon of sbx is down and does not start (%s): look with \"sbx diagnose\", start it with \"sbx daemon start --detach\"", c.Words())
	case c.Says("kvm"):
		return noKVM("sbx says: " + c.Words())
	case c.Says("failed to run sandbox container"):
		if err := d.kvm(); err != nil {
			return err
		}
		return fmt.Errorf("sbx could not start the microVM (%s): look with \"sbx diagnose\"", c.Words())
	default:
		return nil
	}
}

// Missing implements [microvm.Dialect].
func (d *Dialect) Missing(c *microvm.CallError) bool {
	return c.Says("no sandbox named", "no such sandbox") || c.Says("sandbox '") && c.Says("' not found")
}

// Taken implements [microvm.Dialect].
func (d *Dialect) Taken(c *microvm.CallError) bool { return c.SaysTaken() }

// kvm tells whether microVMs can run at all.
func (d *Dialect) kvm() error {
	if runtime.GOOS != "linux" || d.KVM == "" {
		return nil
	}
	f, err := os.OpenFile(d.KVM, os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("you may not use %s, which sbx needs: add yourself to its group with \"sudo usermod -aG kvm $USER\", then log in again", d.KVM)
	default:
		return noKVM(fmt.Sprintf("there is no %s", d.KVM))
	}
}

func noKVM(why string) error {
	return fmt.Errorf("this machine has no KVM, which sbx needs for its microVMs (%s): switch virtualisation on in its firmware, or nested virtualisation if it is a virtual machine; or use \"--driver container\"", why)
}

// Diagnose implements [microvm.Dialect]: what sbx says of itself, and what it
// says of the sandbox when it is asked for it by name.
func (d *Dialect) Diagnose(ctx context.Context, name string) string {
	const listed = "sbx lists no sandboxes at all, though this one was made"
	client, err := d.Client(ctx)
	if err != nil {
		return listed + "; " + err.Error()
	}
	if failing := diagnosis(ctx, client); failing != "" {
		return listed + "; \"sbx diagnose\" says: " + failing
	}
	_, err = client.Output(ctx, 30*time.Second, append(d.Exec(name, microvm.ExecOptions{}), "true")...)
	c, said := errors.AsType[*microvm.CallError](err)
	switch {
	case err == nil:
		return listed + "; but it runs commands in it. \"sbx daemon restart\" may mend the list"
	case said && d.Missing(c):
		return listed + "; asked for it by name, it says that there is none"
	case said && d.Explain(c) != nil:
		return listed + "; " + d.Explain(c).Error()
	default:
		return listed + "; " + err.Error()
	}
}

// diagnosis returns the checks of sbx that fail, with its hints.
func diagnosis(ctx context.Context, client microvm.Client) string {
	out, err := client.Output(ctx, time.Minute, "diagnose", "--output", "json")
	if c, ok := errors.AsType[*microvm.CallError](err); ok && c.Stdout != "" {
		out, err = []byte(c.Stdout), nil
	}
	if err != nil {
		return err.Error()
	}
	return failing(out)
}

// failing reads the checks that failed from the answer of "sbx diagnose".
func failing(output []byte) string {
	var report struct {
		Checks []struct {
			Name, Status, Message, Hint string
		} `json:"checks"`
	}
	if start := strings.IndexByte(string(output), '{'); start < 0 ||
		json.NewDecoder(strings.NewReader(string(output[start:]))).Decode(&report) != nil {
		return "" // it is only asked to say more
	}
	var found []string
	for _, c := range report.Checks {
		if c.Status == "fail" {
			found = append(found, strings.TrimRight(fmt.Sprintf("%s: %s. %s", c.Name, c.Message, c.Hint), ". "))
		}
	}
	return strings.Join(found, "; ")
}
