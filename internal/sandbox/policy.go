package sandbox

import (
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// Results of a policy.
const (
	autoAllowed          = "auto_allowed"
	approvalRequired     = "human_approval_required"
	blocked              = "blocked"
	manualReviewRequired = "manual_review_required"
)

// policy is one version of a policy.
type policy struct {
	workspace, id, name, version string
	rule                         jsontext.Value
	digest                       string
	active                       bool
	created                      string
}

// newPolicy returns a policy with its digest.
func (s *Server) newPolicy(workspace, id, name, version string, rule jsontext.Value, active bool) *policy {
	digest, _ := evidence.Commitment(evidence.Object( // Its parts were read before.
		kv("workspace_id", workspace), kv("policy_id", id), kv("version", version), kv("rule", rule)))
	return &policy{
		workspace: workspace, id: id, name: name, version: version, rule: rule, digest: digest, active: active, created: isoTime(s.now()),
	}
}

// refundPolicy is the policy that LoopGrid ships.
func (s *Server) refundPolicy() *policy {
	return s.newPolicy(defaultWorkspace, "refund-policy", "Refund authority", "17.3",
		jsontext.Value(`{"type":"amount_threshold","field":"amount","auto_approve_max":500,"hard_limit":1500,"currency":"USD"}`), true)
}

func (p *policy) answer() jsontext.Value {
	return evidence.Object(
		kv("workspace_id", p.workspace), kv("policy_id", p.id), kv("name", p.name), kv("version", p.version), kv("rule", p.rule),
		kv("policy_digest", p.digest), kv("active", p.active), kv("created_at", p.created),
	)
}

// listPolicies is GET /api/v1/workspaces/{w}/policies, the newest first.
func (s *Server) listPolicies(r *request) (*answer, error) {
	if err := s.authorize(r, r.params[0], scopeRead); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []jsontext.Value
	for _, p := range slices.Backward(s.policies[r.params[0]]) {
		list = append(list, p.answer())
	}
	return answerJSON(evidence.Array(list...))
}

// createPolicy is POST /api/v1/workspaces/{w}/policies.
func (s *Server) createPolicy(r *request) (*answer, error) {
	workspace := r.params[0]
	if err := s.authorize(r, workspace, scopeAdmin); err != nil {
		return nil, err
	}
	f := r.form
	p := s.newPolicy(workspace, f.str("policy_id"), f.str("name"), f.str("version"), f.values["rule"], f.is("active"))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.policies[workspace] {
		if other.id == p.id && other.version == p.version {
			return nil, refuse(http.StatusConflict, "Policy version could not be created: this version exists")
		}
	}
	if !s.charge(len(p.rule)) {
		return nil, errFull()
	}
	if p.active {
		for _, other := range s.policies[workspace] {
			other.active = other.active && other.id != p.id
		}
	}
	s.policies[workspace] = append(s.policies[workspace], p)
	return answerJSON(p.answer())
}

// evaluatePolicy is POST /api/v1/workspaces/{w}/policies/evaluate. It records nothing.
func (s *Server) evaluatePolicy(r *request) (*answer, error) {
	workspace := r.params[0]
	if err := s.authorize(r, workspace, scopeIngest); err != nil {
		return nil, err
	}
	s.mu.Lock()
	var active *policy
	for _, p := range s.policies[workspace] {
		if p.id == r.form.str("policy_id") && p.active {
			active = p
		}
	}
	s.mu.Unlock()
	if active == nil {
		return nil, refuse(http.StatusNotFound, "Active policy not found")
	}
	result, err := active.evaluate(r.form.values["proposed_action"], r.form.values["authority"], r.form.values["context"])
	if err != nil {
		return nil, err
	}
	return answerJSON(result)
}

// evaluate applies the policy to an action. The error is an exception of LoopGrid's arithmetic.
func (p *policy) evaluate(action, authority, context jsontext.Value) (jsontext.Value, error) {
	commitment, err := evidence.Commitment(evidence.Object(kv("proposed_action", action), kv("authority", authority), kv("context", context)))
	if err != nil {
		return nil, errInternal
	}
	result := func(decision, reason string, more ...evidence.Field) jsontext.Value {
		fields := []evidence.Field{
			kv("policy_id", p.id), kv("version", p.version), kv("decision", decision), kv("reason", reason), kv("policy_digest", p.digest),
			kv("input_commitment", commitment),
		}
		return evidence.Object(append(append(fields, more...), kv("rule", p.rule))...)
	}
	if evidence.GetText(p.rule, "type") != "amount_threshold" {
		return result(manualReviewRequired, "unsupported_policy_rule"), nil
	}
	field := "amount"
	if evidence.Get(p.rule, "field") != nil {
		field = evidence.GetText(p.rule, "field")
	}
	amount := evidence.Get(action, field)
	exact, isNumber := exactNumber(amount)
	if !isNumber {
		return result(manualReviewRequired, "amount_missing_or_invalid"), nil
	}
	auto, hard, limit, err := p.limits(evidence.Get(authority, "limit_usd"))
	if err != nil {
		return nil, err
	}
	decision, reason := autoAllowed, "action_within_auto_approval_threshold"
	switch {
	case limit != 0 && exact.Cmp(new(big.Float).SetFloat64(limit)) > 0:
		decision, reason = blocked, "action_exceeds_authorized_limit"
	case exact.Cmp(new(big.Float).SetFloat64(auto)) > 0:
		decision, reason = approvalRequired, "action_exceeds_auto_approval_threshold"
	}
	if limit == 0 {
		limit = hard
	}
	float := func(f float64) jsontext.Value { return evidence.AppendFloat(nil, f) }
	return result(decision, reason, kv("amount", amount), kv("human_approval_threshold", float(auto)), kv("hard_limit", float(limit))), nil
}

// limits returns the amount up to which no person is needed, the policy's own hard limit, and the limit in force: the lower of
// the hard limit and that of the authority. A limit of 0 counts as none, and an authority that is not a number counts only if the policy has no
// hard limit.
func (p *policy) limits(authority jsontext.Value) (auto, hard, limit float64, err error) {
	if hard, err = pythonFloat(evidence.Get(p.rule, "hard_limit")); err != nil {
		return 0, 0, 0, err
	}
	if auto, err = pythonFloat(evidence.Get(p.rule, "auto_approve_max")); err != nil {
		return 0, 0, 0, err
	}
	if _, isNumber := exactNumber(authority); hard != 0 && !isNumber {
		return auto, hard, hard, nil
	}
	if limit, err = pythonFloat(authority); err != nil {
		return 0, 0, 0, err
	}
	if hard != 0 {
		limit = min(hard, limit)
	}
	return auto, hard, limit, nil
}

// exactNumber returns what Python's comparisons see in a value. Booleans are numbers to Python.
func exactNumber(value jsontext.Value) (*big.Float, bool) {
	switch value.Kind() {
	case 't':
		return big.NewFloat(1), true
	case 'f':
		return new(big.Float), true
	case '0':
		if n, ok := new(big.Int).SetString(string(value), 10); ok {
			return new(big.Float).SetInt(n), true
		}
		f, err := strconv.ParseFloat(string(value), 64)
		return new(big.Float).SetFloat64(f), err == nil
	default:
		return nil, false
	}
}

// pythonFloat is Python's float(value or 0).
func pythonFloat(value jsontext.Value) (float64, error) {
	if !truthy(value) {
		return 0, nil
	}
	digits := string(value)
	if s, isText := evidence.Unquote(value); isText {
		digits = strings.TrimSpace(s)
	} else if value.Kind() == 't' {
		return 1, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, errInternal
	}
	return f, nil
}
