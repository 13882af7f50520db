package safety

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// tokenArg returns the argument that a command token stands for. A token is a literal
// (name is empty) or exactly one {{name}}; anything between is refused, since text
// glued to an argument is where injection begins.
func tokenArg(token string) (name string, err error) {
	inner, opened := strings.CutPrefix(token, "{{")
	inner, closed := strings.CutSuffix(inner, "}}")
	if opened && closed && isArgName(inner) {
		return inner, nil
	}
	if strings.Contains(token, "{{") || strings.Contains(token, "}}") {
		return "", refuse("command", "%s must be either literal text or exactly one {{name}}", shown(token))
	}
	return "", nil
}

// CheckCommand checks the command of a template capability against its schema when it
// is loaded: every token, a literal program, and that each argument is declared and
// used. Where the schema itself is broken s is nil, and only the tokens are checked.
func CheckCommand(command []string, s *Schema) error {
	var es Errors
	if err := checkProgram(command); err != nil {
		es = append(es, err)
	}
	used := map[string]bool{}
	for _, token := range command {
		name, err := checkToken(token, s)
		if err != nil {
			es = append(es, err)
		}
		used[name] = true
	}
	if s == nil {
		return es.orNil()
	}
	for _, name := range s.Names() {
		if s.props[name].multiline {
			es = append(es, refuse("args_schema.properties."+name, "text of many lines is only possible in a prompt"))
		}
		if !used[name] {
			es = append(es, refuse("command", "the argument %s is declared and never used", name))
		}
	}
	return es.orNil()
}

func checkProgram(command []string) *Error {
	switch {
	case len(command) == 0:
		return refuse("command", "is empty; give the program and its arguments as a list")
	case command[0] == "" || strings.Contains(command[0], "{{"):
		return refuse("command", "the program has to be named literally, not by an argument")
	case strings.HasPrefix(command[0], "-"):
		return refuse("command", "%s is no name of a program", shown(command[0]))
	}
	return nil
}

func checkToken(token string, s *Schema) (name string, problem *Error) {
	name, err := tokenArg(token)
	if err != nil {
		return "", err.(*Error) //nolint:errorlint,forcetypeassert // its only type
	}
	if s != nil && name != "" && !s.Declares(name) {
		return "", refuse("command", "{{%s}} is not declared in args_schema; %s", name, s.known())
	}
	return name, checkText("command", token, false)
}

// Tokens renders a command with arguments that [Schema.Check] returned: one token for
// each placeholder, holding the value and nothing else. A token for an optional
// argument that is absent is left out.
func Tokens(command []string, args map[string]any, s *Schema) ([]string, error) {
	if err := checkProgram(command); err != nil {
		return nil, err
	}
	var es Errors
	argv := make([]string, 0, len(command))
	for _, token := range command {
		name, problem := checkToken(token, s)
		if problem == nil && name != "" {
			var here bool
			token, here, problem = s.render(name, args)
			if !here && problem == nil {
				continue
			}
		}
		if problem != nil {
			es = append(es, problem)
			continue
		}
		argv = append(argv, token)
	}
	if err := es.orNil(); err != nil {
		return nil, err
	}
	return argv, nil
}

// render returns the token of one argument; here is false where it is left out.
func (s *Schema) render(name string, args map[string]any) (token string, here bool, problem *Error) {
	p := s.props[name]
	value, ok := args[name]
	if !ok {
		if p.required {
			return "", false, refuse(name, "is required")
		}
		return "", false, nil
	}
	token, err := valueText(name, value)
	if err != nil {
		return "", false, err
	}
	if err := checkText(name, token, false); err != nil {
		return "", false, err
	}
	if strings.HasPrefix(token, "-") && !p.allowsDash(token) {
		return "", false, refuse(name, "%s begins with a dash, so the program could take it for an option", shown(token))
	}
	return token, true, nil
}

// allowsDash reports whether the schema says explicitly that the value may begin with
// a dash: by a pattern anchored on both sides, or by a negative minimum.
func (p property) allowsDash(token string) bool {
	if p.negative {
		_, err := strconv.ParseFloat(token, 64)
		return err == nil
	}
	if !strings.HasPrefix(p.pattern, "^") || !strings.HasSuffix(p.pattern, "$") {
		return false
	}
	re, err := regexp.Compile(`\A(?:` + p.pattern + `)\z`)
	return err == nil && re.MatchString(token)
}

// valueText is a checked value as a program or a prompt gets it.
func valueText(name string, value any) (string, *Error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, int64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", refuse(name, "must be a plain value; lists and objects are not taken")
}
