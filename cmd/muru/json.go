package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// printJSON prints a value as one line of JSON.
func printJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	if _, err := fmt.Fprintln(w, string(text)); err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return nil
}
