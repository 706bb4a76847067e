package edge

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muru"
)

func TestAnIdentityIsMintedOnlyWhileTheSplitIsDivided(t *testing.T) {
	f := newFront(t, Options{})
	both := map[int]muru.Backend{5: says("r5"), 6: says("r6")}
	for _, share := range []muru.Share{-1, 0, muru.Buckets} {
		f.Route(shop(share, both))
		if r := f.get("/"); r.Header.Get("Set-Cookie") != "" || r.Header.Get("Cache-Control") != "" {
			t.Errorf("at %v: %v", share, r.Header)
		}
	}
	f.Route(shop(1000, both))
	r := f.get("/")
	want := regexp.MustCompile(`^muru_id=[0-9A-Z]{26}; Path=/; HttpOnly; SameSite=Lax$`)
	if c := r.Header["Set-Cookie"]; len(c) != 1 || !want.MatchString(c[0]) {
		t.Errorf("cookies %q", c)
	}
	if c := r.Header.Get("Cache-Control"); c != "private" {
		t.Errorf("Cache-Control %q", c)
	}
	for _, cookie := range []string{"muru_id=1", "muru_id=01M6TE1RN0DZ6YEXWKNV4W5AKN"} {
		if r := f.get("/", "Cookie: "+cookie); r.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s is minted anew: %v", cookie, r.Header)
		}
	}
	if r := f.get("/", "Cookie: muru_id=<script>"); r.Header.Get("Set-Cookie") == "" {
		t.Error("a muru_id that is none is kept")
	}
}

func TestWhatAnAppSaysOfCachesIsKeptAsFarAsACookieAllows(t *testing.T) {
	for _, c := range [][2]string{
		{"", "private"},
		{"no-store", "no-store"},
		{"Private, max-age=5", "Private, max-age=5"},
		{"public, max-age=60, s-maxage=600", "private, max-age=60"},
		{"no-cache", "private, no-cache"},
		{" , ", "private"},
	} {
		var app []string
		if c[0] != "" {
			app = []string{c[0]}
		}
		if got := privateCacheControl(app); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}

func TestTwentyClientsThatKeepCookiesNeverFlip(t *testing.T) {
	f := newFront(t, Options{})
	both := map[int]muru.Backend{5: says("r5"), 6: says("r6")}
	f.Route(shop(5000, both))
	seen := make([]map[string]bool, 20)
	var wg sync.WaitGroup
	for i := range seen {
		seen[i] = map[string]bool{}
		wg.Go(func() {
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Error(err)
				return
			}
			client := &http.Client{Transport: f.client.Transport, Jar: jar}
			for n := range 5 {
				r, err := client.Get(fmt.Sprintf("%s/page/%d", f.url, n))
				if err != nil {
					t.Error(err)
					return
				}
				seen[i][readAll(t, r.Body)] = true
				r.Body.Close()
			}
		})
	}
	wg.Wait()
	got := map[string]int{}
	for i, s := range seen {
		if len(s) != 1 {
			t.Errorf("client %d saw %v", i, s)
		}
		for name := range s {
			got[name]++
		}
	}
	// Each side is empty with a probability of 2^-20.
	if got["r5"] == 0 || got["r6"] == 0 {
		t.Errorf("clients of each release: %v", got)
	}
}

func TestAStickyClientStaysThroughAPromotionUntilItsGraceIsOver(t *testing.T) {
	f := newFront(t, Options{})
	both := map[int]muru.Backend{5: says("r5"), 6: says("r6")}
	sticky := func(r *muru.Routing) { r.Route.Sticky = time.Minute; r.Route.Path = "/shop"; r.Rollout = 0 }
	f.Route(shop(-1, both, sticky))
	r := f.get("/shop/cart")
	cookie := r.Header.Get("Set-Cookie")
	if cookie != "muru_sticky=shop@r5.0.0; Path=/shop; HttpOnly; SameSite=Lax" || r.Header.Get("Cache-Control") != "private" {
		t.Fatalf("%v", r.Header)
	}
	value, _, _ := strings.Cut(cookie, ";")

	promoted := func(until time.Time) func(*muru.Routing) {
		return func(r *muru.Routing) {
			sticky(r)
			r.Split, _ = muru.NewSplit("rollout 1", rel(6))
			r.Honoured = []muru.Honoured{{Release: rel(5), Until: until}}
		}
	}
	f.Route(shop(-1, both, promoted(time.Now().Add(time.Minute))))
	if r := f.get("/shop/cart", "Cookie: "+value); r.body != "r5" || r.Header.Get("Set-Cookie") != "" {
		t.Errorf("in its grace: %s %v", r.body, r.Header)
	}
	if r := f.get("/shop/cart"); r.body != "r6" {
		t.Errorf("a new client: %s", r.body)
	}
	f.Route(shop(-1, both, promoted(time.Now())))
	if r := f.get("/shop/cart", "Cookie: "+value); r.body != "r6" || !strings.HasPrefix(r.Header.Get("Set-Cookie"), "muru_sticky=shop@r6.") {
		t.Errorf("after its grace: %s %v", r.body, r.Header)
	}
}

func TestOnlyWhatWeWroteIsAnAssignment(t *testing.T) {
	good := assignment{rel(6), 7, 1000}
	if a, ok := parseAssignment(good.String()); !ok || a != good {
		t.Fatalf("%v %v", a, ok)
	}
	for _, text := range []string{
		"", ".", "..", "shop@r6", "shop@r6.7", "shop@r6.7.", "shop@r6.7.10001", "shop@r6.7.-1", "shop@r6.-7.1", "shop@r6.+7.1",
		"shop@r6.07.1", "shop@r06.7.1", "shop@r0.7.1", "r6.7.1", "@r6.7.1", "shop@r6.7.1.1", "shop@r6.7.1 ", " shop@r6.7.1", "Shop@r6.7.1",
		"shop@r6.7.1000000000000000000000", "shop@r6.7.0x1", "shop@r6.7.\x00", strings.Repeat("s", 100) + "@r6.7.1" + strings.Repeat("0", 100),
	} {
		if a, ok := parseAssignment(text); ok {
			t.Errorf("%q is %+v", text, a)
		}
	}
}

func TestAReleaseIsNamedOnlyToWhoHasTheToken(t *testing.T) {
	f := newFront(t, Options{Token: "of this process"})
	f.Route(shop(-1, map[int]muru.Backend{5: says("r5")}))
	for field, want := range map[string]string{
		"Muru-Token: of this process": "shop@r5", "Muru-Token: another": "", "Muru-Token: ": "", "X: y": "",
	} {
		if got := f.get("/", field).Header.Get("Muru-Release"); got != want {
			t.Errorf("%s: %q", field, got)
		}
	}
	f.Route(shop(-1, nil))
	if got := f.get("/", "Muru-Token: of this process").Header["Muru-Release"]; slices.Contains(got, "shop@r5") {
		t.Errorf("named without a release: %q", got)
	}
}
