package store

import (
	"errors"

	"go.etcd.io/bbolt"
)

// SetFormat makes the file at path one of another format.
func SetFormat(path string, format uint64) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(metaFormat, encodeFormat(format))
	})
	return errors.Join(err, db.Close())
}

// FailCommits makes the last step of every transaction fail with err, after it
// was done or instead of it; nil makes it work again.
func (b *Bolt) FailCommits(err error, done bool) {
	b.writer <- struct{}{}
	defer func() { <-b.writer }()
	b.commit = (*bbolt.Tx).Commit
	if err == nil {
		return
	}
	b.commit = func(tx *bbolt.Tx) error {
		if !done {
			return errors.Join(err, tx.Rollback())
		}
		return errors.Join(err, tx.Commit())
	}
}

// Unsynced are Options for tests that make many stores.
func Unsynced() Options { return Options{noSync: true} }
