package proxy

import "sync"

// registry knows what is open to hosts, so that it can be limited, and cut when
// the policy changes.
type registry struct {
	mu    sync.Mutex
	limit int
	next  int
	items map[int]openItem
}

type openItem struct {
	host  string
	port  uint16
	close func()
	// cut slots are closed, also those whose target is not known yet.
	cut bool
}

func newRegistry(limit int) *registry { return &registry{limit: limit, items: map[int]openItem{}} }

// slot is an entry of the registry.
type slot struct {
	r  *registry
	id int
}

// take returns a place, or false when there is none left.
func (r *registry) take() (slot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.items) >= r.limit {
		return slot{}, false
	}
	r.next++
	r.items[r.next] = openItem{}
	return slot{r, r.next}, true
}

// assign sets the slot's target and the function that closes its connection. It returns false if
// everything was closed since the slot was taken.
func (s slot) assign(host string, port uint16, end func()) bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.r.items[s.id].cut {
		return false
	}
	s.r.items[s.id] = openItem{host: host, port: port, close: end}
	return true
}

// free gives the place back.
func (s slot) free() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.r.items, s.id)
}

// closeIf ends what matches. It stays listed until it has given its place back.
func (r *registry) closeIf(match func(host string, port uint16) bool) {
	r.mu.Lock()
	var ends []func()
	for _, item := range r.items {
		if item.close != nil && match(item.host, item.port) {
			ends = append(ends, item.close)
		}
	}
	r.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// closeAll closes all connections. Those that are still being established find their
// slot cut afterwards.
func (r *registry) closeAll() {
	r.mu.Lock()
	for id, item := range r.items {
		item.cut = true
		r.items[id] = item
	}
	r.mu.Unlock()
	r.closeIf(func(string, uint16) bool { return true })
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.items)
}
