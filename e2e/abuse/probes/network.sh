#: forbidden-http broke
closed "$abuse" tcp "$FORBIDDEN:80"
#: forbidden-https broke
closed "$abuse" tls direct - "$FORBIDDEN:443" blocked.example
#: forbidden-ssh broke
closed "$abuse" tcp "$FORBIDDEN:22"
#: forbidden-by-device broke
closed "$abuse" tcp "$FORBIDDEN:80" eth0
#: forbidden-multipath broke
closed "$abuse" mptcp "$FORBIDDEN:80"
#: forbidden-fast-open broke
closed "$abuse" fastopen "$FORBIDDEN:80" "GET /$SECRET HTTP/1.0\r\n\r\n"
#: forbidden-dns-port broke
closed "$abuse" udp "$FORBIDDEN:53" "$SECRET"
#: forbidden-quic broke
closed "$abuse" udp "$FORBIDDEN:443" "$SECRET"
#: forbidden-ntp broke
closed "$abuse" udp "$FORBIDDEN:123" "$SECRET"
#: forbidden-udp-by-device broke
closed "$abuse" udp "$FORBIDDEN:53" "$SECRET" eth0
#: forbidden-ping broke
closed "$abuse" icmp "$FORBIDDEN"
#: forbidden-mapped-address broke
closed "$abuse" tcp "[::ffff:$FORBIDDEN]:80"
#: forbidden-without-proxy-variables broke
closed env -u https_proxy -u HTTPS_PROXY -u http_proxy -u HTTP_PROXY GIT_CONFIG_COUNT=0 NO_PROXY='*' "$abuse" say "$FORBIDDEN:80" 'GET / HTTP/1.1\r\nHost: blocked.example\r\n\r\n' served
#: machine-gateway broke
closed "$abuse" tcp "$HOST_GATEWAY:$HOST_PORT"
#: machine-gateway-by-device broke
closed "$abuse" tcp "$HOST_GATEWAY:$HOST_PORT" eth0
#: machine-bridge broke
closed "$abuse" tcp "$HOST_BRIDGE:$HOST_PORT"
#: machine-bridge-by-device broke
closed "$abuse" tcp "$HOST_BRIDGE:$HOST_PORT" eth0
#: machine-address broke
closed "$abuse" tcp "$HOST_ADDRESS:$HOST_PORT"
#: machine-address-by-device broke
closed "$abuse" tcp "$HOST_ADDRESS:$HOST_PORT" eth0
#: machine-one-way-udp broke
closed "$abuse" udp "$HOST_BRIDGE:$HOST_PORT" "$SECRET"
closed "$abuse" udp "$HOST_ADDRESS:$HOST_PORT" "$SECRET" eth0
#: machine-ping broke
closed "$abuse" icmp "$HOST_BRIDGE"
#: machine-by-name held
same "addresses" "$(getent hosts host.docker.internal gateway.docker.internal kubernetes.docker.internal)" ""
#: metadata broke
closed "$abuse" tcp 169.254.169.254:80
#: metadata-by-device broke
closed "$abuse" tcp 169.254.169.254:80 eth0
#: neighbour broke
closed "$abuse" tcp "$NEIGHBOUR:80"
#: neighbour-by-device broke
closed "$abuse" tcp "$NEIGHBOUR:80" eth0
#: broadcast broke
closed perl -e 'use Socket; socket(my $s, PF_INET, SOCK_DGRAM, 0); setsockopt($s, SOL_SOCKET, SO_BROADCAST, 1); exit(send($s, "$ENV{SECRET}", 0, pack_sockaddr_in(5353, inet_aton("255.255.255.255"))) ? 0 : 1)'
#: multicast broke
closed perl -e 'use Socket; socket(my $s, PF_INET, SOCK_DGRAM, 0); exit(send($s, "$ENV{SECRET}", 0, pack_sockaddr_in(5353, inet_aton("224.0.0.251"))) ? 0 : 1)'
#: no-ipv6-address held
same "addresses" "$(grep -v ' lo$' /proc/net/if_inet6 2>/dev/null)" ""
#: ipv6-machine held
closed "$abuse" tcp "[fe80::1%eth0]:$HOST_PORT"
closed "$abuse" tcp "[fd00::1]:$HOST_PORT"
#: ipv6-internet held
closed "$abuse" tcp "[2001:db8::1]:443"
#: gateway-is-nobody broke
# Old engines leave a route to an address that nobody has.
gateway=$(awk 'NR > 1 && $2 == "00000000" {print $3; exit}' /proc/net/route | sed 's/\(..\)\(..\)\(..\)\(..\)/0x\4 0x\3 0x\2 0x\1/')
[ -z "$gateway" ] || closed "$abuse" tcp "$(printf '%d.%d.%d.%d' $gateway):$HOST_PORT" eth0
tried=1
#: blocked-by-name broke
closed "$abuse" tcp blocked.example:80
#: dns-of-the-system held
same "addresses" "$(getent hosts "$SECRET.blocked.example")" ""
#: dns-of-the-engine held
for kind in A TXT MX; do closed "$abuse" dns udp 127.0.0.11:53 "$SECRET.blocked.example." $kind; done
#: dns-far-away differs
closed "$abuse" dns udp "$FORBIDDEN:53" "$SECRET.example." A
closed "$abuse" dns tcp "$FORBIDDEN:53" "$SECRET.example." A
#: dns-of-the-proxy skipped
needs_proxy
for kind in A AAAA TXT MX SRV NS CNAME ANY; do closed "$abuse" dns udp "$proxy_ip:53" "$SECRET.blocked.example." $kind; done
closed "$abuse" dns tcp "$proxy_ip:53" "$SECRET.blocked.example." TXT
#: dns-below-an-allowed-name skipped
needs_proxy
for kind in A TXT; do closed "$abuse" dns udp "$proxy_ip:53" "$SECRET.allowed.example." $kind; done
#: dns-allowed-name-says-nothing skipped
needs_proxy
for kind in TXT MX AAAA SRV; do closed "$abuse" dns udp "$proxy_ip:53" allowed.example. $kind; done
#: dns-backwards skipped
needs_proxy
closed "$abuse" dns udp "$proxy_ip:53" 1.100.51.198.in-addr.arpa. PTR
