// Package store keeps what must survive a restart: keys and values with
// revisions, transactions that compare and write, and watches. The interface
// has etcd's semantics, so that a team that outgrows one machine changes the
// engine and nothing else.
//
//   - [Store] is the interface; store.go states its rules
//   - [Cmp], [Op]: a transaction, see [Put], [Del], [DelRange], [Get] and
//     [Absent]; [Check] is what every engine refuses
//   - [Batch], [Change]: what a watch sends
//   - [Lease], [Term]: keys that end with who made them; being the leader
//   - [Bolt] is the engine for one machine, in one file; [Open] opens it
//   - errors.go has what calls fail with
//
// The files of the engine: bolt_record.go is the layout and every record of
// it, bolt_file.go creates, locks and verifies a file, bolt_check.go reads its
// pages without trusting them, and bolt.go holds the two doors to it, view and
// update, that everything else goes through.
//
// Ownership: a Bolt owns its file, the goroutine that ends leases and one for
// each watch and term; Close waits for them. Values that come back are the
// caller's. The package storetest is the conformance suite of every engine.
//
// Start reading at [Store], then bolt_record.go.
package store
