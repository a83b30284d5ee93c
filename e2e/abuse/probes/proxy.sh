#: allowed-works-through-the-proxy skipped
needs_proxy
out=$("$abuse" tls "$proxy" allowed.example:443 - allowed.example) || broke "$out"
tried=1
#: allowed-works-by-name skipped
needs_proxy
out=$("$abuse" tls direct - allowed.example:443 allowed.example) || broke "$out"
out=$("$abuse" say allowed.example:80 'GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n' host=allowed.example) || broke "$out"
tried=1
#: connect-blocked skipped
needs_proxy
closed "$abuse" say "$proxy" 'CONNECT blocked.example:443 HTTP/1.1\r\nHost: blocked.example\r\n\r\n' ' 200 '
#: connect-other-port skipped
needs_proxy
for port in 22 25 0 65536 -1; do closed "$abuse" say "$proxy" "CONNECT allowed.example:$port HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n" ' 200 '; done
#: connect-address skipped
needs_proxy
for a in "$FORBIDDEN" "$FORBIDDEN." 3325256704 0xc6336401 0306.063.0144.01 198.51.25601 "[::ffff:$FORBIDDEN]" '[::1]' '[64:ff9b::c633:6401]'; do closed "$abuse" say "$proxy" "CONNECT $a:443 HTTP/1.1\\r\\nHost: $a\\r\\n\\r\\n" ' 200 '; done
#: connect-loopback skipped
needs_proxy
for a in localhost 127.0.0.1 0.0.0.0 "$proxy_ip" 127.1 0; do for p in 3128 3129 8080 443 53; do closed "$abuse" say "$proxy" "CONNECT $a:$p HTTP/1.1\\r\\nHost: $a\\r\\n\\r\\n" ' 200 '; done; done
#: connect-metadata skipped
needs_proxy
for a in 169.254.169.254 2852039166 0xa9fea9fe '[::ffff:169.254.169.254]' metadata.google.internal instance-data; do closed "$abuse" say "$proxy" "CONNECT $a:80 HTTP/1.1\\r\\nHost: $a\\r\\n\\r\\n" ' 200 '; done
#: connect-similar-names skipped
needs_proxy
for a in evilallowed.example allowed.example.blocked.example allowed.examplee allowed-example x.allowed.example 'blocked.example%00.allowed.example' 'allowed.example@blocked.example' 'blocked.example#allowed.example' 'blocked.example/allowed.example' 'blocked.example\tallowed.example'; do closed "$abuse" say "$proxy" "CONNECT $a:443 HTTP/1.1\\r\\nHost: $a\\r\\n\\r\\n" ' 200 '; done
#: connect-zero-byte skipped
needs_proxy
closed "$abuse" say "$proxy" 'CONNECT blocked.example\0.allowed.example:443 HTTP/1.1\r\nHost: allowed.example\r\n\r\n' ' 200 '
#: connect-host-header skipped
needs_proxy
closed "$abuse" say "$proxy" 'CONNECT blocked.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n' ' 200 '
#: other-name-in-the-handshake skipped
needs_proxy
closed "$abuse" tls "$proxy" allowed.example:443 - blocked.example
#: other-name-in-pieces skipped
needs_proxy
closed "$abuse" tls "$proxy" allowed.example:443 - blocked.example split
#: no-name-in-the-handshake skipped
needs_proxy
closed "$abuse" tls "$proxy" allowed.example:443 - -
#: plain-text-in-the-tunnel skipped
needs_proxy
closed "$abuse" say "$proxy" 'CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example\r\n\r\nGET / HTTP/1.1\r\nHost: blocked.example\r\n\r\n' 'HTTP request to an HTTPS server'
#: handshake-with-a-blocked-name skipped
needs_proxy
closed "$abuse" tls direct - "$proxy_ip:443" blocked.example
closed "$abuse" tls direct - "$proxy_ip:443" blocked.example split
#: handshake-without-a-name skipped
needs_proxy
closed "$abuse" tls direct - "$proxy_ip:443" -
#: http-blocked skipped
needs_proxy
closed "$abuse" say "$proxy" 'GET http://blocked.example/ HTTP/1.1\r\nHost: blocked.example\r\n\r\n' served
#: http-blocked-by-host skipped
needs_proxy
closed "$abuse" say "$proxy_ip:80" 'GET / HTTP/1.1\r\nHost: blocked.example\r\n\r\n' served
closed "$abuse" say "$proxy_ip:80" 'GET / HTTP/1.0\r\n\r\n' served
#: http-smuggled-host skipped
needs_proxy
closed "$abuse" say "$proxy" 'GET http://allowed.example/ HTTP/1.1\r\nHost: blocked.example\r\nConnection: close\r\n\r\n' host=blocked.example
closed "$abuse" say "$proxy_ip:80" 'GET / HTTP/1.1\r\nHost: allowed.example\r\nHost: blocked.example\r\n\r\n' host=blocked.example
closed "$abuse" say "$proxy_ip:80" 'GET http://blocked.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n' host=blocked.example
#: http-second-request skipped
needs_proxy
closed "$abuse" say "$proxy" 'GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\nGET http://blocked.example/ HTTP/1.1\r\nHost: blocked.example\r\n\r\n' host=blocked.example
closed "$abuse" say "$proxy_ip:80" 'GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\nGET / HTTP/1.1\r\nHost: blocked.example\r\n\r\n' host=blocked.example
#: http-smuggled-request skipped
needs_proxy
closed "$abuse" say "$proxy" 'POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: blocked.example\r\n\r\n' host=blocked.example
closed "$abuse" say "$proxy" 'POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 0\r\nContent-Length: 60\r\n\r\nGET / HTTP/1.1\r\nHost: blocked.example\r\n\r\n' host=blocked.example
#: http-upgrade skipped
needs_proxy
closed "$abuse" say "$proxy" 'GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\nGET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n' upgraded
#: http-2-in-clear skipped
needs_proxy
closed "$abuse" say "$proxy" 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' served
#: http-other-schemes skipped
needs_proxy
for s in ftp file gopher unix https ws; do closed "$abuse" say "$proxy" "GET $s://blocked.example/ HTTP/1.1\\r\\nHost: blocked.example\\r\\n\\r\\n" served; done
#: socks skipped
needs_proxy
closed perl -e 'use Socket; my ($h, $p) = split /:/, shift; socket(my $s, PF_INET, SOCK_STREAM, 0); connect($s, pack_sockaddr_in($p, inet_aton($h))) or exit 1; send($s, "\5\1\0", 0); vec(my $r, fileno($s), 1) = 1; select($r, undef, undef, 0.5) or exit 1; sysread($s, my $a, 2); exit($a eq "\5\0" ? 0 : 1)' "$proxy"
#: huge-header skipped
needs_proxy
closed sh -c '"$abuse" say "$1" "GET http://allowed.example/ HTTP/1.1\\r\\nHost: allowed.example\\r\\nX: $(head -c 100000 /dev/zero | tr "\\0" a)\\r\\n\\r\\n" served' - "$proxy"
#: allowed-name-at-a-private-address skipped
needs_proxy
closed "$abuse" say "$proxy" 'GET http://private.example/ HTTP/1.1\r\nHost: private.example\r\n\r\n' served
closed "$abuse" tls "$proxy" private.example:443 - private.example
#: refusals-come-at-once skipped
needs_proxy
for i in 1 2 3 4 5; do
	closed "$abuse" tcp "$FORBIDDEN:80"
	case $out in *timeout*) broke "$out" ;; esac
done
#: no-other-ports-of-the-proxy skipped
needs_proxy
for p in 21 22 23 25 110 2375 2376 5000 6060 8000 8443 9000 9090 10000 50051; do closed "$abuse" tcp "$proxy_ip:$p"; done
#: control-of-the-proxy skipped
needs_proxy
closed perl -e 'use Socket; socket(my $s, PF_UNIX, SOCK_STREAM, 0); exit(connect($s, pack("S a*", AF_UNIX, "\0ralph-egress")) ? 0 : 1)'
for path in /allow /control /stats /debug/pprof/ /; do closed "$abuse" say "$proxy" "GET $path HTTP/1.1\\r\\nHost: $proxy\\r\\n\\r\\n" ' 200 '; done
#: resolver-is-the-proxy broke
same "others" "$(awk '$1 == "nameserver" {print $2}' /etc/resolv.conf | grep -vxF -e 127.0.0.11 -e "${proxy_ip:-127.0.0.11}")" ""
#: sockets-of-the-proxy-cannot-be-changed skipped
needs_proxy
closed touch /run/docker-ralph-proxy/new
for f in /run/docker-ralph-proxy/*; do
	closed mv "$f" "$f.old"
	closed rm "$f"
	closed chmod 0 "$f"
done
#: addresses-of-the-proxy-are-in-use skipped
needs_proxy
tried=1
case $proxy_ip in 127.*)
	for port in 3128 3129 80 443 53; do for a in "$proxy_ip" 0.0.0.0; do
		closed perl -e 'use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0); setsockopt($s, SOL_SOCKET, $_, 1) for SO_REUSEADDR, 15; exit(bind($s, pack_sockaddr_in($ARGV[1], inet_aton($ARGV[0]))) && listen($s, 1) ? 0 : 1)' "$a" $port
	done; done ;;
esac
