package bridge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryWarningCodeHasAMeaning: the documents list the codes from [WarningCodes].
func TestEveryWarningCodeHasAMeaning(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "warnings.go", nil, 0)
	require.NoError(t, err)
	var declared []string
	ast.Inspect(file, func(node ast.Node) bool {
		if value, ok := node.(*ast.ValueSpec); ok {
			if kind, ok := value.Type.(*ast.Ident); ok && kind.Name == "warningCode" {
				literal, ok := value.Values[0].(*ast.BasicLit)
				require.True(t, ok)
				code, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				declared = append(declared, code)
			}
		}
		return true
	})
	slices.Sort(declared)
	var listed []string
	for _, w := range WarningCodes() {
		listed = append(listed, w.Code)
		assert.Regexp(t, `^[A-Z].+\.$`, w.Meaning)
	}
	require.NotEmpty(t, declared)
	assert.Equal(t, declared, listed)
}
