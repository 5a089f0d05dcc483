package loopgrid

import (
	"errors"
	"net/http"
	"slices"
	"sync"
)

// serviceKey is the key that requests carry, and how to get a new one when LoopGrid refuses it.
type serviceKey struct {
	reread func() (string, error) // nil: the key never changes

	mu  sync.Mutex
	all []string // every key there was, the current one last
}

func newServiceKey(key string, reread func() (string, error)) *serviceKey {
	k := &serviceKey{reread: reread}
	if key != "" {
		k.all = []string{key}
	}
	return k
}

// current returns the key to send, empty if there is none.
func (k *serviceKey) current() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) == 0 {
		return ""
	}
	return k.all[len(k.all)-1]
}

// Keys returns every key that the client has had, old ones too: none of them may be shown.
func (c *Client) Keys() []string {
	c.key.mu.Lock()
	defer c.key.mu.Unlock()
	return slices.Clone(c.key.all)
}

// replacedAfter says whether err is LoopGrid's own refusal of the key that was sent, and there is another key now: the request may be
// sent again with it, since a refusal of the key records nothing.
func (k *serviceKey) replacedAfter(err error, sent string) bool {
	var api *APIError
	if !errors.As(err, &api) || api.Status != http.StatusUnauthorized || api.InFront {
		return false
	}
	if k.current() != sent {
		return true // another request has read it again meanwhile
	}
	if k.reread == nil {
		return false
	}
	key, err := k.reread()
	if err != nil || key == "" || key == sent {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(slices.DeleteFunc(k.all, func(old string) bool { return old == key }), key)
	return true
}
