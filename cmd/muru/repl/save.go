package repl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.starlark.net/syntax"

	"muru"
	"muru/control"
)

// save is %save: the calls of this session that did something, as a recipe.
// A file that somebody else wrote is not replaced.
func (r *repl) save(ctx context.Context, rest string) error {
	words, err := splitWords(rest)
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return needs("save", "a file")
	}
	file := words[0]
	source, err := r.savedSource(ctx)
	if err != nil {
		return err
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !r.saved[path] {
		how |= os.O_EXCL
	}
	f, err := os.OpenFile(path, how, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return muru.Errorf(muru.KindRefused, "%%save: %s is there already", file).WithHint("name another file")
	}
	if err == nil {
		r.saved[path] = true
		_, err = f.WriteString(source)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("save the recipe: %w", err)
	}
	calls := "calls"
	n := callsIn(source)
	if n == 1 {
		calls = "call"
	}
	r.tell("%d %s saved: muru run %s", n, calls, file)
	return nil
}

// savedSource asks the session for the recipe of what it did.
func (r *repl) savedSource(ctx context.Context) (source string, err error) {
	var value json.RawMessage
	err = r.session.Eval(ctx, control.SavedInput, func(m control.Message) {
		if m.Kind == control.KindValue {
			value = m.Value
		}
	})
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(value, &source); err != nil {
		return "", fmt.Errorf("read the recipe of the session: %w", err)
	}
	return source, nil
}

// callsIn counts the statements of a recipe's main.
func callsIn(source string) int {
	file, err := new(syntax.FileOptions).Parse("saved.star", source, 0)
	if err != nil {
		return 0 // it is saved all the same, and shows what it is when it runs
	}
	for _, stmt := range file.Stmts {
		if def, ok := stmt.(*syntax.DefStmt); ok && def.Name.Name == "main" {
			return len(def.Body)
		}
	}
	return 0
}
