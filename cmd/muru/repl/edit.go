package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"muru"
)

// definition finds what an input defines: functions and variables, where
// their names begin a line.
var definition = regexp.MustCompile(`(?m)^(?:def[ \t]+([A-Za-z_]\w*)[ \t]*\(|([A-Za-z_]\w*)[ \t]*=[^=])`)

var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// remember keeps a block for %edit.
func (r *repl) remember(block string) {
	r.block = block
	for _, m := range definition.FindAllStringSubmatch(block, -1) {
		r.blocks[m[1]+m[2]] = block
	}
}

// edit is %edit: the newest input that defined NAME, a new function of that
// name if none has, or the last input, in an editor; what it was changed to
// is evaluated.
func (r *repl) edit(ctx context.Context, name string) error {
	if name != "" && !identifier.MatchString(name) {
		return muru.Errorf(muru.KindUsage, "%%edit: %q is not a name", name)
	}
	source, isNew := r.block, false
	if name != "" {
		if source = r.blocks[name]; source == "" {
			source, isNew = "def "+name+"():\n    pass\n", true
		}
	}
	edited, err := r.editText(ctx, name, source)
	if err != nil {
		return err
	}
	edited = strings.TrimRight(edited, "\n")
	if edited == "" || edited == strings.TrimRight(source, "\n") && (isNew || name == "") {
		r.tell("nothing was changed, nothing is evaluated")
		return nil
	}
	if r.history != nil {
		if err := r.history.add(edited); err != nil {
			r.complain(err)
		}
	}
	return r.eval(ctx, edited+"\n")
}

// editText has a text edited by $VISUAL, $EDITOR or vi.
func (r *repl) editText(ctx context.Context, name, text string) (string, error) {
	dir, err := os.MkdirTemp("", "muru-edit-")
	if err != nil {
		return "", fmt.Errorf("make a file to edit: %w", err)
	}
	defer os.RemoveAll(dir)
	if name == "" {
		name = "input"
	}
	file := filepath.Join(dir, name+".star")
	if err := os.WriteFile(file, []byte(strings.TrimRight(text, "\n")+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the file to edit: %w", err)
	}
	editor := "vi"
	for _, name := range []string{"EDITOR", "VISUAL"} {
		if e := os.Getenv(name); e != "" {
			editor = e
		}
	}
	// An editor may come with arguments, which a shell takes apart; Ctrl-C is
	// its own while it runs, so nobody else gets signals.
	_, giveBack := r.person.Signals.Take()
	defer giveBack()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.person.Stdin, r.person.Stdout, r.person.Stderr
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return "", muru.Errorf(muru.KindFailed, "the editor ended with %w: nothing is evaluated", err).
				WithHint("EDITOR is %q", editor)
		}
		return "", fmt.Errorf("run the editor %q: %w", editor, err)
	}
	edited, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the edited file: %w", err)
	}
	return string(edited), nil
}
