#: processes-are-limited broke
limit=$(cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null)
same "the limit" "$limit" "$PIDS"
#: fork-bomb broke
closed perl -e '$SIG{TERM} = "IGNORE"; for (1 .. shift) { my $p = fork; if (!defined $p) { kill "KILL", @all; 1 while wait != -1; exit 1 } if (!$p) { sleep 30; exit } push @all, $p } kill "KILL", @all; 1 while wait != -1' "$((PIDS + 16))"
#: memory-is-limited broke
"$abuse" allocate "$((MEMORY + 32))"
same "the end of what uses too much" "$?" 137
#: no-swap broke
swap=$(cat /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes /sys/fs/cgroup/memory.swap.max 2>/dev/null)
[ "$swap" = 0 ] || [ "$swap" = "$((MEMORY << 20))" ] || broke "memory with swap: $swap"
tried=1
#: processors-are-limited broke
quota=$(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max)
[ "$quota" != -1 ] && [ "$quota" != max ] || broke "there is no quota"
tried=1
#: raise-the-limits held
for f in memory/memory.limit_in_bytes pids/pids.max cpu/cpu.cfs_quota_us memory.max pids.max; do [ ! -e /sys/fs/cgroup/$f ] || closed writable /sys/fs/cgroup/$f; done
#: no-core-files broke
same "the limit" "$(ulimit -Hc)" 0
#: tmp-is-limited broke
[ "$(df -Pk /tmp | awk 'NR == 2 {print $2}')" -le 1048576 ] || broke "$(df -Pk /tmp)"
tried=1
#: shm-is-limited held
[ "$(df -Pk /dev/shm | awk 'NR == 2 {print $2}')" -le 65536 ] || broke "$(df -Pk /dev/shm)"
tried=1
#: run-is-limited broke
[ "$(df -Pk /run | awk 'NR == 2 {print $2}')" -le 16384 ] || broke "$(df -Pk /run)"
tried=1
#: priority held
same "the priority" "$(nice -n -5 nice 2>/dev/null)" "$(nice)"
#: real-time held
closed "$abuse" call sched-fifo
#: spared-by-the-oom-killer held
closed sh -c 'echo -900 >/proc/self/oom_score_adj'
#: half-open-requests skipped
needs_proxy
"$abuse" flood "$proxy" 6000 || broke "they are not even taken"
tries=0 # it takes a moment to see that they are closed
until out=$("$abuse" say "$proxy" 'GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n' host=allowed.example); do
	tries=$((tries + 1))
	[ "$tries" -lt 25 ] || broke "the proxy has ended: $out"
	sleep 0.2
done
tried=1
