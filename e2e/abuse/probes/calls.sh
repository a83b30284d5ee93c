#: io-uring differs
closed "$abuse" call io-uring
#: bpf held
closed "$abuse" call bpf
#: perf-event-open held
closed "$abuse" call perf-event-open
#: userfaultfd held
closed "$abuse" call userfaultfd
#: add-key held
closed "$abuse" call add-key
#: keyctl held
closed "$abuse" call keyctl
#: request-key held
closed "$abuse" call request-key
#: init-module held
closed "$abuse" call init-module
#: finit-module held
closed "$abuse" call finit-module
#: delete-module held
closed "$abuse" call delete-module
#: kexec held
closed "$abuse" call kexec-load
#: reboot held
closed "$abuse" call reboot
#: swapon held
closed "$abuse" call swapon
#: acct held
closed "$abuse" call acct
#: set-the-time held
closed "$abuse" call settimeofday
closed "$abuse" call adjtimex
#: quota held
closed "$abuse" call quotactl
#: personality held
closed "$abuse" call personality
#: fanotify held
closed "$abuse" call fanotify
#: vhangup held
closed "$abuse" call vhangup
#: trace-the-first-process broke
closed "$abuse" call ptrace-init
#: sockets-packet broke
closed "$abuse" socket 17 3 768
#: sockets-raw broke
closed "$abuse" socket 2 3 1
closed "$abuse" socket 2 3 255
#: sockets-raw-ipv6 broke
closed "$abuse" socket 10 3 58
#: sockets-vsock differs
closed "$abuse" socket 40 1 0
#: sockets-alg differs
closed "$abuse" socket 38 5 0
#: sockets-rare broke
# CAN, RDS, TIPC, Bluetooth, PPPoX, XDP, SMC, KCM.
for f in 29:3:1 21:5:0 30:2:0 31:3:1 24:1:0 44:3:0 43:1:0 41:5:0; do closed "$abuse" socket ${f%%:*} "$(echo $f | cut -d: -f2)" ${f##*:}; done
#: sockets-netlink-audit held
closed sh -c 'perl -e "use Socket; socket(my \$s, 16, 3, 9) or exit 1; my \$m = pack(q(LSSLL), 16, 1000, 5, 1, 0); send(\$s, \$m, 0) or exit 1; vec(my \$r, fileno(\$s), 1) = 1; select(\$r, undef, undef, 1) or exit 1; recv(\$s, my \$a, 4096, 0); exit(unpack(q(x16l), \$a) < 0 ? 1 : 0)"'
#: firewall-flush held
closed "$abuse" flush
#: network-device held
closed "$abuse" route
