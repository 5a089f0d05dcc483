package bridge

import "strings"

// Documentation is what documents, packages and tests say about one tool.
type Documentation struct {
	Name       string   // in the dotted spelling
	Underscore string   // the name in the other spelling
	Summary    string   // the first sentence of its description
	Effect     string   // what a call changes
	Arguments  []string // required ones end with *
	Routes     string   // the routes of LoopGrid behind it
}

// Document describes the tools in the order of their use. Every list of the tools elsewhere comes from it.
func Document() []Documentation {
	var all []Documentation
	for _, t := range catalogue() {
		summary, _, _ := strings.Cut(dotted.names(t.description), ". ")
		d := Documentation{
			Name: dotted.toolName(t.name), Underscore: underscored.toolName(t.name), Summary: strings.TrimSuffix(summary, ".") + ".",
			Effect: t.effect, Routes: t.routes,
		}
		for _, p := range t.parameters {
			name := p.name
			if p.required {
				name += "*"
			}
			d.Arguments = append(d.Arguments, name)
		}
		all = append(all, d)
	}
	return all
}
