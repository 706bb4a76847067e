package edge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestALineSaysWhatSlogsWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		took := time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "took"))
		n := rapid.Int64().Draw(t, "n")

		var want strings.Builder
		record := slog.NewRecord(time.Time{}, slog.LevelInfo, "request", 0)
		record.AddAttrs(slog.String("path", text), slog.Int64("bytes_in", n), slog.Float64("duration_ms", float64(took.Microseconds())/1000))
		if err := slog.NewJSONHandler(&want, nil).Handle(context.Background(), record); err != nil {
			t.Fatal(err)
		}
		line := appendText([]byte(`{"level":"INFO","msg":"request"`), "path", text)
		line = appendNumber(line, "bytes_in", n)
		line = appendMilliseconds(line, "duration_ms", took)
		got := string(append(line, '}'))
		var ours, theirs map[string]any
		if err := errors.Join(json.Unmarshal([]byte(got), &ours), json.Unmarshal([]byte(want.String()), &theirs)); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(ours, theirs) || strings.Contains(got, "\n") {
			t.Errorf("%s, want %s", got, want.String())
		}
	})
}
