// Package storetest is the conformance suite of [store.Store]: what every
// engine must do, as a table of cases and as random sequences of operations
// compared with a model.
//
//   - [Run] runs all of it on a [Harness], which opens stores of one engine
//   - [Unsure] makes a store answer ErrUnknown to changes that were, or were
//     not, made: every caller must cope, and so does the suite, which runs on
//     such a store unchanged
//
// The suite never assumes an empty store or revision 1: an engine may be one
// that others use too, as long as nobody else writes during a case.
package storetest
