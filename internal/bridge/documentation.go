package bridge

// Documentation is what a reader of the README is told of one tool.
type Documentation struct {
	Name      string   // in the dotted spelling
	Effect    string   // what a call changes
	Arguments []string // required ones end with *
	Routes    string   // the routes of LoopGrid behind it
}

// Document describes the tools in the order of their use, from the table that also makes their schemas.
func Document() []Documentation {
	var all []Documentation
	for _, t := range catalogue() {
		d := Documentation{Name: dotted.toolName(t.name), Effect: t.effect, Routes: t.route}
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
