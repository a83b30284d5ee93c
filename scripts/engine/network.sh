# shellcheck shell=bash
# The network of a test engine: a separate namespace, so that bridges and iptables chains of engines do
# not conflict, connected to the host by a veth pair. Sourced by scripts/engine.sh.

# First two octets of all addresses, for machines where this range is in use.
NET=${RALPH_TEST_NET:-10.213}

engine_number() {
	case $1 in
	debian) echo 1 ;;
	moby) echo 2 ;;
	debian2) echo 3 ;;
	moby2) echo 4 ;;
	rootless) echo 5 ;;
	debian3) echo 6 ;;
	moby3) echo 7 ;;
	esac
}

engine_netns() { echo "ralph-$1"; }
engine_veth() { echo "ralph-$1"; }

# The host's address as containers of the engine see it.
engine_gateway() { echo "$NET.$(engine_number "$1").1"; }

# The engine's own address, as the host sees it, and where it listens for TLS.
engine_address() { echo "$NET.$(engine_number "$1").2"; }
engine_tls() { echo "$(engine_address "$1"):2376"; }

uplink_mtu() {
	local device
	device=$(ip -4 route show default | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
	cat "/sys/class/net/$device/mtu" 2>/dev/null || echo 1500
}

network_up() {
	local netns veth
	netns=$(engine_netns "$1")
	veth=$(engine_veth "$1")
	# After a crash, machines with a persistent /run keep the name without the namespace.
	if [ -e "/run/netns/$netns" ] && ! ip netns exec "$netns" true 2>/dev/null; then
		rm -f "/run/netns/$netns"
	fi
	[ -e "/run/netns/$netns" ] || ip netns add "$netns"
	if ! ip link show "$veth" >/dev/null 2>&1; then
		ip link add "$veth" type veth peer name eth0 netns "$netns"
	fi
	addresses_up "$1" "$netns" "$veth"
	forwarding_up "$1" "$veth"
}

addresses_up() {
	local mtu
	mtu=$(uplink_mtu)
	ip addr replace "$(engine_gateway "$1")/24" dev "$3"
	ip link set "$3" mtu "$mtu" up
	ip -n "$2" addr replace "$(engine_address "$1")/24" dev eth0
	ip -n "$2" link set lo up
	ip -n "$2" link set eth0 mtu "$mtu" up
	ip -n "$2" route replace default via "$(engine_gateway "$1")"
}

forwarding_up() {
	if [ "$(cat /proc/sys/net/ipv4/ip_forward)" != 1 ]; then
		say "enabling net.ipv4.ip_forward for the containers of the test engines"
		echo 1 >/proc/sys/net/ipv4/ip_forward
	fi
	each_rule add_rule "$1" "$2"
}

# Calls FUNCTION TABLE CHAIN RULE... for each rule an engine needs on the host.
each_rule() {
	local call=$1 engine=$2 veth=$3
	# Not the whole subnet: the kernel would end connections of this machine to its own address there when
	# an address of its loopback device is removed, which masquerading has chosen for them.
	"$call" nat POSTROUTING -s "$(engine_address "$engine")" ! -o "$veth" -j MASQUERADE
	# Inserted first: a host engine or a firewall sets the policy of FORWARD to DROP.
	"$call" filter FORWARD -i "$veth" -j ACCEPT
	"$call" filter FORWARD -o "$veth" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
	"$call" filter INPUT -i "$veth" -j ACCEPT
	# Bridges inside keep an MTU of 1500 even where the uplink's is smaller.
	"$call" mangle FORWARD -i "$veth" -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
}

add_rule() {
	local table=$1 chain=$2
	shift 2
	iptables -w -t "$table" -C "$chain" "$@" 2>/dev/null || iptables -w -t "$table" -I "$chain" "$@"
}

delete_rule() {
	local table=$1 chain=$2
	shift 2
	while iptables -w -t "$table" -D "$chain" "$@" 2>/dev/null; do :; done
}

network_down() {
	each_rule delete_rule "$1" "$(engine_veth "$1")"
	ip link delete "$(engine_veth "$1")" 2>/dev/null || true
	ip netns delete "$(engine_netns "$1")" 2>/dev/null || rm -f "/run/netns/$(engine_netns "$1")"
}
