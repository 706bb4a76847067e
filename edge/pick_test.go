package edge

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"muru"
)

// cookieIn returns a muru_id whose bucket is the candidate's at 10%, or is not
// even at 50%.
func idIn(candidate bool) string {
	for i := 0; ; i++ {
		id := "client-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		b := bucketOf("shop", "rollout 1", id)
		if candidate && b < 1000 || !candidate && b >= 5000 {
			return id
		}
	}
}

// The precedence of what picks a release: preview header, preview cookie,
// sticky cookie, split, baseline.
func TestPrecedenceOfWhatPicksARelease(t *testing.T) {
	in, out := "muru_id="+idIn(true), "muru_id="+idIn(false)
	now := time.Now()
	plain := func(*muru.Routing) {}
	sticky := func(r *muru.Routing) {
		r.Route.Sticky = time.Minute
		r.Honoured = []muru.Honoured{{Release: rel(4), Until: now.Add(time.Second)}, {Release: rel(3), Until: now}}
	}
	off := func(r *muru.Routing) { sticky(r); r.Route.PreviewOff = true }
	secret := func(r *muru.Routing) { sticky(r); r.Route.PreviewKey = "open sesame" }
	dark := func(r *muru.Routing) {
		sticky(r)
		r.Split, _ = muru.NewSplit("rollout 1", rel(5), muru.SplitArm{Release: rel(6)})
	}
	for _, c := range []struct {
		what       string
		change     func(*muru.Routing)
		header     string
		cookie     string
		want       int // 0: no such release
		randomised bool
	}{
		{"the preview header beats everything", sticky, "r7", "muru_preview=r4; muru_sticky=shop@r5.1.1000; " + in, 7, false},
		{"the preview cookie beats the sticky one", sticky, "", "muru_preview=r7; muru_sticky=shop@r5.1.1000; " + in, 7, false},
		{"the sticky cookie beats the split", sticky, "", "muru_sticky=shop@r5.1.1000; " + in, 5, true},
		{"the split beats the baseline", sticky, "", in, 6, true},
		{"the baseline has the rest", sticky, "", out, 5, true},

		{"a full name does too", plain, "shop@r7", "", 7, false},
		{"a preview of what does not exist", plain, "r9", in, 0, false},
		{"a preview of nonsense", plain, "banana", in, 0, false},
		{"a preview of an empty name", plain, "", "muru_preview=; " + in, 6, true},
		{"a cookie of what does not exist", plain, "", "muru_preview=r9; " + in, 0, false},
		{"a header for another app", plain, "blog@r7", in, 0, false},
		{"a cookie for another app is none of ours", plain, "", "muru_preview=blog@r7; " + in, 6, true},
		{"previews reach a share of 0", dark, "r6", out, 6, false},
		{"a share of 0 is nobody's", dark, "", in, 5, false},

		{"previews are off", off, "r7", "muru_preview=r7; " + in, 6, true},
		{"the secret is missing", secret, "r7", in, 6, true},
		{"the secret is wrong", secret, "r7 open", in, 6, true},
		{"the secret is right", secret, "r7 open sesame", in, 7, false},
		{"the secret is right for nothing", secret, "r9 open sesame", in, 0, false},
		{"the secret is right in a cookie", secret, "", "muru_preview=r7:open sesame; " + in, 7, false},
		{"the header's is wrong, the cookie's right", secret, "r4 no", "muru_preview=r7 open sesame", 7, false},

		{"no stickiness on a plain route", plain, "", "muru_sticky=shop@r5.1.1000; " + in, 6, true},
		{"an older cookie is honoured and not counted", sticky, "", "muru_sticky=shop@r5.0.0; " + in, 5, false},
		{"a share that was never given is not counted", sticky, "", "muru_sticky=shop@r6.1.9000; " + out, 6, false},
		{"within the grace", sticky, "", "muru_sticky=shop@r4.0.0; " + in, 4, false},
		{"past the grace", sticky, "", "muru_sticky=shop@r3.0.0; " + in, 6, true},
		{"a release that is not listed", sticky, "", "muru_sticky=shop@r7.1.1000; " + in, 6, true},
		{"a candidate back at 0", dark, "", "muru_sticky=shop@r6.1.1000; " + in, 5, false},
		{"garbage", sticky, "", "muru_sticky=shop@r5; muru_sticky=; muru_sticky=shop@r5.1.-1; " + in, 6, true},
		{"another app's, then ours", sticky, "", "muru_sticky=blog@r5.1.1000; muru_sticky=shop@r5.1.1000; " + in, 5, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			e := New(Options{})
			backends := map[int]muru.Backend{3: says("r3"), 4: says("r4"), 5: says("r5"), 6: says("r6"), 7: says("r7")}
			e.Route(shop(1000, backends, c.change))
			h := http.Header{"Cookie": {c.cookie}}
			if c.header != "" {
				h.Set("Muru-Preview", c.header)
			}
			s := e.table.Load().find("", "/", "GET", h).state.Load()
			ch := s.pick(&client{header: h, address: "192.0.2.1"}, "request", now)
			if c.want == 0 {
				if ch.reason != muru.ReasonNoSuchRelease || ch.target != nil {
					t.Fatalf("picked %v, reason %v", ch.release, ch.reason)
				}
				return
			}
			if ch.release != rel(c.want) || ch.target == nil || ch.reason != muru.ReasonNone {
				t.Errorf("picked %v, reason %v, want r%d", ch.release, ch.reason, c.want)
			}
			if ch.randomised != c.randomised {
				t.Errorf("randomised %v", ch.randomised)
			}
			if ch.preview && (ch.mint != "" || ch.sticky != "") {
				t.Errorf("a preview sets cookies: %q %q", ch.mint, ch.sticky)
			}
		})
	}
}

func TestKeysTellClientsApartAndFallBackToMuruID(t *testing.T) {
	h := http.Header{"Cookie": {"muru_id=me; session=s1"}, "X-User": {"u1"}}
	for _, c := range []struct {
		key    string
		header http.Header
		want   string
	}{
		{"muru_id", h, "me"},
		{"cookie:session", h, "s1"},
		{"cookie:other", h, "me"},
		{"header:x-user", h, "u1"},
		{"header:X-Other", h, "me"},
		{"address", h, "192.0.2.1"},
		{"header:X-User", http.Header{}, ""},
		{"muru_id", http.Header{"Cookie": {"muru_id=\"quoted\""}}, ""},
		{"muru_id", http.Header{"Cookie": {"muru_id=" + strings.Repeat("a", 129)}}, ""},
		{"muru_id", http.Header{"Cookie": {"xmuru_id=1; muru_id = 2; muru_id="}}, ""},
	} {
		key, err := muru.ParseKey(c.key)
		if err != nil {
			t.Fatal(err)
		}
		cl := client{header: c.header, address: "192.0.2.1"}
		if got := cl.identity(key); got != c.want {
			t.Errorf("%s of %v: %q, want %q", c.key, c.header, got, c.want)
		}
	}
}

func TestAClientKeepsTheIdentityItWasMintedWhenPickedAgain(t *testing.T) {
	e := New(Options{})
	e.Route(shop(5000, map[int]muru.Backend{5: says("r5"), 6: says("r6")}))
	s := e.table.Load().any.byPrefix[""][0].app.state.Load()
	c := client{header: http.Header{}}
	a, b := s.pick(&c, "x", time.Now()), s.pick(&c, "x", time.Now())
	if a.mint == "" || a.mint != b.mint || a.release != b.release || !a.alone {
		t.Errorf("%+v then %+v", a, b)
	}
}
