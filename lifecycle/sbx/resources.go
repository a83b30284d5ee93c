package sbx

import (
	"fmt"
	"runtime"
)

// processors is the number of whole processors for a limit in billionths: at
// least one, and no more than there are.
func processors(nano int64) int {
	return max(1, min(int((nano+1e9-1)/1e9), runtime.NumCPU()))
}

// The bounds of sbx (contract, section 5.1): it refuses less than 512 MiB and
// more than three quarters of the machine's memory.
const smallest = 512 << 20

// limitMemory fits a limit in bytes to what sbx accepts.
func limitMemory(bytes int64) (int64, error) {
	total, err := hostMemory()
	if err != nil {
		return 0, fmt.Errorf("asking how much memory this machine has: %w", err)
	}
	most := max(total/4*3, smallest)
	return max(min(bytes, most), smallest), nil
}
