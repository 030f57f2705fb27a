package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	inlineCode  = regexp.MustCompile("`[^`]*`")
	inlineLink  = regexp.MustCompile(`\]\(<?([^()\s>]+)>?(?:\s+"[^"]*")?\)`)
	linkByName  = regexp.MustCompile(`^\s*\[[^\]]+\]:\s+(\S+)`)
	withScheme  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	headingLine = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*\s*$`)
)

// brokenLinks returns a line for every relative link of a document, in
// root/file, that leads to no file or no heading.
func brokenLinks(root, file string, prose []string) []string {
	var problems []string
	for i, line := range prose {
		var targets []string
		for _, m := range inlineLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
			targets = append(targets, m[1])
		}
		if m := linkByName.FindStringSubmatch(line); m != nil {
			targets = append(targets, m[1])
		}
		for _, target := range targets {
			if withScheme.MatchString(target) {
				continue
			}
			if why := follow(root, file, prose, target); why != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: link to %s: %s", file, i+1, target, why))
			}
		}
	}
	return problems
}

// follow says what is wrong with a relative link.
func follow(root, file string, prose []string, target string) string {
	target, heading, _ := strings.Cut(target, "#")
	if target != "" {
		file = filepath.ToSlash(filepath.Join(filepath.Dir(file), filepath.FromSlash(target)))
		if !filepath.IsLocal(filepath.FromSlash(file)) {
			return "outside the repository"
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if info, statErr := os.Stat(filepath.Join(root, filepath.FromSlash(file))); statErr != nil {
			return "no such file"
		} else if info.IsDir() || heading == "" {
			return ""
		} else if err != nil {
			return err.Error()
		}
		if _, prose, err = goBlocks(file, string(text)); err != nil {
			return err.Error()
		}
	}
	if heading != "" && !slices.Contains(headings(prose), heading) {
		return "no such heading"
	}
	return ""
}

// headings are the names under which the headings of a document can be linked
// to: in lower case, with hyphens for spaces and without punctuation.
func headings(prose []string) []string {
	var names []string
	for _, line := range prose {
		m := headingLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		names = append(names, name)
	}
	return names
}
