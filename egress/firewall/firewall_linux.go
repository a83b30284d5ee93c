package firewall

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/wire"
)

// tableName is the table of all rules, which is replaced as a whole.
const tableName = "ralph"

// Apply lets out everything but IPv6 and what is for addresses in [Never] or in near, the
// networks of the engine. It lets in answers only. The rules replace those of an earlier
// call in one step. It needs CAP_NET_ADMIN in the network namespace.
func Apply(near []netip.Prefix) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("connecting to netfilter: %w", err)
	}
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: tableName}
	conn.AddTable(table) // so that deleting it cannot fail
	conn.DelTable(table)
	b := builder{conn: conn, table: conn.AddTable(table)}
	b.refusal()
	b.open(near)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("setting the netfilter rules: %w", err)
	}
	return nil
}

// Dropped returns how many packets with [Mark] were dropped since [Apply].
func Dropped() (uint64, error) {
	conn, err := nftables.New()
	if err != nil {
		return 0, fmt.Errorf("connecting to netfilter: %w", err)
	}
	rules, err := conn.GetRules(&nftables.Table{Family: nftables.TableFamilyINet, Name: tableName}, &nftables.Chain{Name: refusalName})
	if err != nil {
		return 0, fmt.Errorf("reading the netfilter rules: %w", err)
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if counter, ok := e.(*expr.Counter); ok {
				return counter.Packets, nil
			}
		}
	}
	return 0, errors.New("no counter in the netfilter rules")
}

type builder struct {
	conn  *nftables.Conn
	table *nftables.Table
}

// chain adds a chain with the policy drop.
func (b builder) chain(name string, hook *nftables.ChainHook) *nftables.Chain {
	drop := nftables.ChainPolicyDrop
	return b.conn.AddChain(&nftables.Chain{
		Name: name, Table: b.table, Type: nftables.ChainTypeFilter,
		Hooknum: hook, Priority: nftables.ChainPriorityFilter, Policy: &drop,
	})
}

func (b builder) rule(chain *nftables.Chain, parts ...[]expr.Any) {
	var all []expr.Any
	for _, part := range parts {
		all = append(all, part...)
	}
	b.conn.AddRule(&nftables.Rule{Table: b.table, Chain: chain, Exprs: all})
}

// refusalName is the chain for blocked packets.
const refusalName = "refuse"

// refusal rejects packets, so that programs fail at once. TCP connections fail a second
// later if they get no reset.
func (b builder) refusal() {
	chain := b.conn.AddChain(&nftables.Chain{Name: refusalName, Table: b.table})
	b.rule(chain, marked(expr.CmpOpEq), []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}})
	b.rule(chain, protocol(unix.IPPROTO_TCP), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	b.rule(chain, []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}})
}

// open allows connections to everything but blocked addresses. The engine's resolver,
// which runs in the sandbox's namespace as root, may query any address: sandboxes only
// run as root on rootless engines. The canary runs as root, but marks its packets.
func (b builder) open(near []netip.Prefix) {
	out, in := b.chain("out", nftables.ChainHookOutput), b.chain("in", nftables.ChainHookInput)
	b.chain("forward", nftables.ChainHookForward)
	b.rule(out, loopback(expr.MetaKeyOIFNAME), accept())
	b.rule(in, loopback(expr.MetaKeyIIFNAME), accept())
	for _, number := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		b.rule(out, ipv4(), ofRoot(), marked(expr.CmpOpNeq), toPort(number, wire.PortDNS), accept())
	}
	for _, p := range append(Never(), near...) {
		mask := netmask(p.Bits())
		b.rule(out, ipv4(), toNetwork(p.Masked().Addr().AsSlice(), mask), refuse())
	}
	b.rule(out, ipv4(), accept())
	b.rule(out, refuse())
	b.rule(in, answers(), accept())
}

func netmask(bits int) []byte {
	return binaryutil.BigEndian.PutUint32(^uint32(0) << (32 - bits))
}

func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

func refuse() []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: refusalName}}
}

func marked(op expr.CmpOp) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Cmp{Op: op, Register: 1, Data: binaryutil.NativeEndian.PutUint32(Mark)},
	}
}

func loopback(key expr.MetaKey) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, "lo")
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name},
	}
}

func ipv4() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
	}
}

func ofRoot() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0, 0, 0, 0}},
	}
}

func toNetwork(is, mask []byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: is},
	}
}

func protocol(number byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
	}
}

func toPort(number byte, port uint16) []expr.Any {
	return append(
		protocol(number),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
	)
}

func answers() []expr.Any {
	const states = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
	return []expr.Any{
		&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(states), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}
