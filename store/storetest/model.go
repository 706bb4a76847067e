package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"muru/store"
)

// A model is a store in memory that keeps everything: each revision's keys and
// changes. It is slow and obvious.
type model struct {
	rev       store.Rev
	compacted store.Rev
	at        map[store.Rev]map[string]store.KV
	changes   map[store.Rev][]store.Change
	leases    map[store.LeaseID]bool
}

func newModel(base, compacted store.Rev) *model {
	return &model{
		rev: base, compacted: compacted,
		at:      map[store.Rev]map[string]store.KV{base: {}},
		changes: make(map[store.Rev][]store.Change),
		leases:  make(map[store.LeaseID]bool),
	}
}

func (m *model) now() map[string]store.KV { return m.at[m.rev] }

// txn is what Txn must do.
func (m *model) txn(cmps []store.Cmp, then, els []store.Op) store.TxnResult {
	result := store.TxnResult{OK: true}
	for _, c := range cmps {
		result.OK = result.OK && c.Holds(m.now()[c.Key])
	}
	ops := then
	if !result.OK {
		ops = els
	}
	keys, rev := maps.Clone(m.now()), m.rev+1
	var changes []store.Change
	for _, o := range ops {
		switch o.Kind {
		case store.OpPut:
			changes = append(changes, modelPut(keys, rev, o))
		case store.OpDel:
			changes = append(changes, modelDel(keys, rev, o.Key, o.Key+"\x00")...)
		case store.OpDelRange:
			changes = append(changes, modelDel(keys, rev, o.Key, o.To)...)
		case store.OpGet:
			result.Gets = append(result.Gets, keys[o.Key])
		}
	}
	m.commit(keys, changes)
	result.Rev = m.rev
	return result
}

func (m *model) commit(keys map[string]store.KV, changes []store.Change) {
	if len(changes) > 0 {
		m.rev++
		m.at[m.rev], m.changes[m.rev] = keys, changes
	}
}

func modelPut(keys map[string]store.KV, rev store.Rev, o store.Op) store.Change {
	old, there := keys[o.Key]
	kv := store.KV{Key: o.Key, Value: o.Value, Create: rev, Mod: rev, Version: 1, Lease: o.Lease}
	change := store.Change{}
	if there {
		kv.Create, kv.Version = old.Create, old.Version+1
		change.Prev = &old
	}
	keys[o.Key] = kv
	change.KV = kv
	return change
}

func modelDel(keys map[string]store.KV, rev store.Rev, from, to string) (changes []store.Change) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if key >= from && (to == "" || key < to) {
			old := keys[key]
			delete(keys, key)
			changes = append(changes, store.Change{Del: true, KV: store.KV{Key: key, Mod: rev}, Prev: &old})
		}
	}
	return changes
}

func (m *model) revoke(id store.LeaseID) {
	delete(m.leases, id)
	keys := maps.Clone(m.now())
	var changes []store.Change
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if keys[key].Lease == id {
			changes = append(changes, modelDel(keys, m.rev+1, key, key+"\x00")...)
		}
	}
	m.commit(keys, changes)
}

// page is what Range must return.
func (m *model) page(from, to string, opt store.RangeOpt) store.Page {
	page := store.Page{Rev: m.rev}
	if opt.AtRev > 0 {
		page.Rev = opt.AtRev
	}
	keys := slices.Sorted(maps.Keys(m.at[page.Rev]))
	if opt.Desc {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if key < from || (to != "" && key >= to) {
			continue
		}
		if opt.Limit > 0 && len(page.KVs) == opt.Limit {
			page.More = true
			break
		}
		kv := m.at[page.Rev][key]
		if opt.Keys {
			kv.Value = nil
		}
		page.KVs = append(page.KVs, kv)
	}
	return page
}

// batches are what a Watch from rev must send by now. The key before a change
// is gone if the change is the compaction's own.
func (m *model) batches(from, to string, rev store.Rev) (found []string) {
	for ; rev <= m.rev; rev++ {
		batch := store.Batch{Rev: rev}
		for _, c := range m.changes[rev] {
			if c.KV.Key >= from && (to == "" || c.KV.Key < to) {
				batch.Events = append(batch.Events, c)
			}
		}
		if len(batch.Events) > 0 {
			found = append(found, showBatch(batch, m.compacted))
		}
	}
	return found
}

func showBatch(b store.Batch, compacted store.Rev) string {
	words := []string{fmt.Sprintf("%d (%v):", b.Rev, b.Err)}
	for _, c := range b.Events {
		word := fmt.Sprintf("del=%v %s", c.Del, showKV(c.KV))
		if c.Prev != nil && b.Rev > compacted {
			word += " after " + showKV(*c.Prev)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func showKV(kv store.KV) string {
	return fmt.Sprintf("%q=%q c%d m%d v%d l%d", kv.Key, kv.Value, kv.Create, kv.Mod, kv.Version, kv.Lease)
}

func showKVs(kvs []store.KV) string {
	var words []string
	for _, kv := range kvs {
		words = append(words, showKV(kv))
	}
	return strings.Join(words, ", ")
}
