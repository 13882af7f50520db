package safety

import (
	"math/big"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// multilineFormat is the format of text that may have lines.
const multilineFormat = "multiline"

// formatNames returns the formats that a schema may ask for.
func formatNames() []string {
	return []string{
		"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer",
		multilineFormat, "period", "regex", "relative-json-pointer", "semver", "time", "uri", "uri-reference", "uuid",
	}
}

// formatCheck returns the check of a format, or nil where there is no such format. The
// library takes formats for remarks.
func formatCheck(name string) func(string) bool {
	switch name {
	case "date":
		return isDate
	case "time":
		return isTime
	case "date-time":
		return isDateTime
	case "duration":
		return isDuration
	case "period":
		return isPeriod
	case "email":
		return isEmail
	case "hostname":
		return isHostname
	case "ipv4":
		return isIPv4
	case "ipv6":
		return isIPv6
	case "uri", "iri":
		return isURI
	case "uri-reference", "iri-reference":
		return isURIReference
	case "regex":
		return isRegex
	}
	if pattern := formatPattern(name); pattern != "" {
		return func(s string) bool { return matches(pattern, s) }
	}
	return nil
}

// formatPattern is a format that a pattern describes whole.
func formatPattern(name string) string {
	const pointer = `(/([^/~]|~[01])*)*`
	switch name {
	case "uuid":
		return `^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`
	case "json-pointer":
		return `^` + pointer + `$`
	case "relative-json-pointer":
		return `^(0|[1-9][0-9]*)(#|` + pointer + `)$`
	case "semver":
		const number, part = `(0|[1-9][0-9]*)`, `(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)`
		return `^` + number + `\.` + number + `\.` + number + `(-` + part + `(\.` + part + `)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`
	}
	return ""
}

// matches compiles a pattern where it is needed, which is rare: as variables of the
// package, patterns would be paid for by every process that starts.
func matches(pattern, s string) bool {
	matched, err := regexp.MatchString(pattern, s)
	return err == nil && matched
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// isDateTime reports a date and time of RFC 3339, in which package time takes more
// forms than there are. There are no leap seconds.
func isDateTime(s string) bool {
	const pattern = `^.{10}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`
	s = strings.ToUpper(s)
	_, err := time.Parse(time.RFC3339, s)
	return err == nil && matches(pattern, s)
}

// isTime reports the time of a date-time.
func isTime(s string) bool { return isDateTime("2000-01-01T" + s) }

// isDuration reports a duration of ISO 8601, such as P1DT12H.
func isDuration(s string) bool {
	const pattern = `^P([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)$`
	return matches(pattern, s) && !strings.HasSuffix(s, "P") && !strings.HasSuffix(s, "T")
}

// isPeriod reports a start and an end, of which one may be a duration.
func isPeriod(s string) bool {
	start, end, _ := strings.Cut(s, "/")
	return isDateTime(start) && (isDateTime(end) || isDuration(end)) || isDuration(start) && isDateTime(end)
}

func isEmail(s string) bool {
	const local = "^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$"
	at := strings.LastIndexByte(s, '@')
	if at < 1 || at > 64 || len(s) > 254 || !matches(local, s[:at]) {
		return false
	}
	domain := s[at+1:]
	if inner, ok := strings.CutPrefix(domain, "["); ok && strings.HasSuffix(inner, "]") {
		inner = strings.TrimSuffix(inner, "]")
		v6, ok := strings.CutPrefix(inner, "IPv6:")
		return ok && isIPv6(v6) || !ok && isIPv4(inner)
	}
	return isHostname(domain)
}

func isHostname(s string) bool {
	s = strings.TrimSuffix(s, ".")
	labels := strings.Split(s, ".")
	return len(s) <= 253 && !slices.ContainsFunc(labels, func(label string) bool { return !isLabel(label) })
}

func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c == '_' || !isArgChar(c) })
}

func isIPv4(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is4()
}

func isIPv6(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is6() && addr.Zone() == ""
}

func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && isURIReference(s)
}

func isURIReference(s string) bool {
	u, err := url.Parse(s)
	if err != nil || strings.ContainsAny(s, ` \"<>`) {
		return false
	}
	host := u.Hostname()
	return !strings.Contains(host, ":") || strings.Contains(u.Host, "[") && isIPv6(host)
}

func isRegex(s string) bool {
	_, err := regexp.Compile(s)
	return err == nil
}

// unmet says what a value does not meet of what the library does not check: formats,
// and multiples, which it tells apart in binary fractions only (0.07 is a multiple of
// 0.01 to everybody else). What is not of the right type is refused for that already.
func (p property) unmet(field string, value any) Errors {
	var es Errors
	if len(p.formats)+len(p.steps) == 0 || len(p.types) > 0 && !holds(&jsonschema.Schema{Types: p.types}, value) {
		return nil
	}
	text, isText := value.(string)
	for _, format := range p.formats {
		if check := formatCheck(format); isText && (check == nil || !check(text)) {
			es = append(es, refuse(field, "%s is not a valid %s", shown(text), format))
		}
	}
	for _, step := range p.steps {
		if n := exactly(value); n != nil && !new(big.Rat).Quo(n, step).IsInt() {
			f, _ := step.Float64()
			es = append(es, refuse(field, "must be a multiple of %s, not %s", valueShown(f), valueShown(value)))
		}
	}
	return es
}

// exactly is a number as it was written, or nil where value is none.
func exactly(value any) *big.Rat {
	switch v := value.(type) {
	case int64:
		return new(big.Rat).SetInt64(v)
	case float64:
		return decimal(v)
	}
	return nil
}

// decimal is the decimal number that f was read from.
func decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return r
}
