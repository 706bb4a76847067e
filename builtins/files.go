package builtins

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"muru"
)

const (
	maxRead  = 1 << 20  // read() of one file
	maxWrite = 16 << 20 // write() of one value
	maxGlob  = 10_000   // names glob() returns
)

var readSpec = (&Spec{
	Name:    "read",
	Group:   GroupWorld,
	Summary: "returns the text of a file",
	Doc:     "At most 1 MiB, in UTF-8. The path is relative to the caller's directory; here() makes one beside the recipe.",
	Params:  []Param{{Name: "path", Type: textType, Pass: Positional, Doc: "the file"}},
	Returns: "text",
	Errors:  []string{"not_found: there is no such file"},
	Example: `print(read(here("notes.txt")))`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		text, err := readFile(c.set.path(arg[string](c, "path")))
		return starlark.String(text), err
	},
}).check()

func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fileError(path, err)
	}
	if !info.Mode().IsRegular() {
		return "", usagef("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fileError(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	switch {
	case err != nil:
		return "", fileError(path, err)
	case len(data) > maxRead:
		return "", usagef("%s is over %d MiB", path, maxRead>>20)
	case !utf8.Valid(data):
		return "", usagef("%s is not text in UTF-8", path)
	}
	return string(data), nil
}

func fileError(path string, err error) error {
	kind := muru.KindFailed
	if errors.Is(err, fs.ErrNotExist) {
		kind = muru.KindNotFound
	}
	return &muru.Error{Kind: kind, Message: pathProblem(path, err), Err: err}
}

var globSpec = (&Spec{
	Name:    "glob",
	Group:   GroupWorld,
	Summary: "lists the files that match a pattern, sorted",
	Doc:     "* and ? match within one name, [a-z] one letter. Paths come as the pattern was given: relative, or absolute.",
	Params:  []Param{{Name: "pattern", Type: textType, Pass: Positional, Doc: "the pattern"}},
	Returns: "list of text",
	Example: `print(glob("releases/*/app.py"))`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		pattern := arg[string](c, "pattern")
		// The directory itself is no pattern, whatever is in its name.
		found, err := fs.Glob(os.DirFS("/"), globPattern(c.set.env.Dir, pattern))
		if err != nil {
			return nil, usagef("%q is not a pattern", pattern)
		}
		if len(found) > maxGlob {
			return nil, usagef("%q matches more than %d files", pattern, maxGlob)
		}
		for i, path := range found {
			found[i] = "/" + path
			if !filepath.IsAbs(pattern) {
				if rel, err := filepath.Rel(c.set.env.Dir, found[i]); err == nil {
					found[i] = rel
				}
			}
		}
		slices.Sort(found)
		return textList(found), nil
	},
}).check()

// globPattern makes a pattern below the root of the file system.
func globPattern(dir, pattern string) string {
	if !filepath.IsAbs(pattern) {
		quoted := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
		pattern = quoted + "/" + pattern
	}
	return strings.TrimPrefix(filepath.Clean(pattern), "/")
}

var writeSpec = (&Spec{
	Name:    "write",
	Group:   GroupWorld,
	Summary: "writes a value to a file, as it prints",
	Doc: `Directories are made, and the file is replaced as a whole. A text is written as it is; any other
value as print shows it, with a line end. At most 16 MiB.`,
	Params: []Param{
		{Name: "path", Type: textType, Pass: Positional, Doc: "the file, relative to the caller's directory"},
		{Name: "value", Type: anyType, Pass: Positional, Doc: "what to write"},
	},
	Returns: "None",
	Example: `write("incident/events.txt", events("shop", since = "1h"))`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		v := arg[starlark.Value](c, "value")
		text := Format(v)
		if _, isText := v.(starlark.String); !isText && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return nil, writeFile(c.set.path(arg[string](c, "path")), text)
	},
}).check()

// writeFile replaces a file so that nobody sees half of it.
func writeFile(path, text string) error {
	if len(text) > maxWrite {
		return usagef("the value is over %d MiB", maxWrite>>20)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fileError(dir, err)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return usagef("%s is not a file", path)
	}
	tmp, err := os.CreateTemp(dir, ".muru-*")
	if err != nil {
		return fileError(dir, err)
	}
	_, err = tmp.WriteString(text)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write: %w", fileError(path, err))
	}
	return nil
}
