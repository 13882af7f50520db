package engine

import (
	"path"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/engine/agent"
	"github.com/threadmill/threadmill/engine/safety"
)

// Risk says how much harm a permission can do, for whoever has to give it. It is a hint
// about what can be seen, never a reason to allow something.
type Risk string

// The risks.
const (
	RiskLow    Risk = "low"    // it only reads
	RiskMedium Risk = "medium" // it changes the project, or runs a command
	RiskHigh   Risk = "high"   // it destroys, leaves the project, gets more rights, or touches credentials
)

// RiskOf tells the risk of an ask by an execution that works in dir. It looks at the text
// alone, so that it is the same whenever and wherever it is asked.
func RiskOf(ask agent.Ask, dir string) Risk {
	fields, _ := fieldsOf(ask.Input)
	risk := RiskMedium
	if ask.Action == agent.ActionFileRead || ask.Action == agent.ActionSearch {
		risk = RiskLow
	}
	for name, f := range fields {
		switch {
		case !f.isText:
		case slices.Contains([]string{"command", "cmd"}, name) && commandIsHigh(f.text, dir),
			slices.Contains([]string{"file_path", "filePath", "path", "notebook_path"}, name) && pathIsHigh(f.text, dir):
			return RiskHigh
		}
	}
	list := strings.NewReplacer("[", " ", "]", " ", ",", " ") // some give a command word by word
	if ask.Action == agent.ActionCommandRun && len(fields) == 0 && commandIsHigh(list.Replace(string(ask.Input)), dir) {
		return RiskHigh
	}
	return risk
}

// pathIsHigh reports whether a file is outside of dir, or holds credentials.
func pathIsHigh(file, dir string) bool {
	if strings.HasPrefix(file, "~") || holdsCredentials(file) {
		return true
	}
	if !path.IsAbs(file) {
		file = path.Join(dir, file)
	}
	return !safety.Inside(path.Clean(file), dir)
}

// holdsCredentials goes by the name.
func holdsCredentials(file string) bool {
	for part := range strings.SplitSeq(strings.ToLower(file), "/") {
		switch part {
		case ".ssh", ".aws", ".gnupg", ".kube", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".docker",
			"id_rsa", "id_ed25519", "id_ecdsa", "credentials", "credentials.json", "secrets.yaml", "secrets.yml", "shadow", "api-token":
			return true
		}
		if part == ".env" || strings.HasPrefix(part, ".env.") && part != ".env.example" || strings.HasSuffix(part, ".pem") || strings.HasSuffix(part, ".key") {
			return true
		}
	}
	return false
}

// commandIsHigh looks at the simple commands that a command line is made of. Quotes are
// taken away and not understood: it errs on the side of warning.
func commandIsHigh(line, dir string) bool {
	line = strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(line)
	fetched := false
	for simple := range strings.FieldsFuncSeq(line, func(c rune) bool { return strings.ContainsRune(";&|\n()`", c) }) {
		words := strings.Fields(simple)
		if len(words) == 0 {
			continue
		}
		if simpleIsHigh(words, dir) || fetched && isInterpreter(words) {
			return true
		}
		fetched = fetched || slices.ContainsFunc(words, func(w string) bool { return slices.Contains([]string{"curl", "wget"}, path.Base(w)) })
	}
	return false
}

// isInterpreter reports whether a simple command runs what it reads.
func isInterpreter(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains([]string{"sh", "bash", "zsh", "dash", "ksh", "fish", "python", "python3", "perl", "ruby", "node"}, path.Base(w))
	})
}

func simpleIsHigh(words []string, dir string) bool {
	for i, w := range words {
		rest := words[i+1:]
		switch path.Base(w) {
		case "sudo", "doas", "su", "dd", "shred", "mkfs", "shutdown", "reboot", "halt", "poweroff", "eval":
			return true
		case "rm":
			if flagged(rest, "rRf", "--recursive", "--force") {
				return true
			}
		case "chmod", "chown":
			if flagged(rest, "R", "--recursive") {
				return true
			}
		case "git":
			if gitIsHigh(rest) {
				return true
			}
		}
		if strings.HasPrefix(w, "mkfs.") || wordLeaves(w, i == 0, dir) {
			return true
		}
	}
	return false
}

// gitIsHigh reports whether a git command throws work away, here or on a server.
func gitIsHigh(args []string) bool {
	switch {
	case slices.Contains(args, "push"):
		return flagged(args, "fd", "--force", "--force-with-lease", "--delete", "--mirror") ||
			slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "+") })
	case slices.Contains(args, "reset"):
		return slices.Contains(args, "--hard")
	case slices.Contains(args, "clean"):
		return flagged(args, "f", "--force")
	}
	return false
}

// flagged reports whether the arguments hold one of the letters in a short flag, or one
// of the long ones.
func flagged(args []string, letters string, long ...string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return slices.Contains(long, name) || len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a[1:], letters)
	})
}

// wordLeaves reports whether a word of a command names something outside of dir, or
// credentials. Where the program itself is found is no matter.
func wordLeaves(word string, program bool, dir string) bool {
	word = strings.TrimLeft(word, "<>0123456789")
	if _, value, found := strings.Cut(word, "="); found {
		word = value
	}
	switch {
	case word == "/dev/null" || program && path.IsAbs(word):
		return false
	case holdsCredentials(word), strings.HasPrefix(word, "~"):
		return true
	case path.IsAbs(word):
		return !safety.Inside(path.Clean(word), dir)
	}
	return slices.Contains(strings.Split(word, "/"), "..") && !safety.Inside(path.Join(dir, word), dir)
}
