package sandbox

import (
	"math/big"
	"net/http"
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
	rule                         *object
	digest                       string
	active                       bool
	created                      string
}

// newPolicy returns a policy with its digest.
func (s *Server) newPolicy(workspace, id, name, version string, rule *object, active bool) (*policy, error) {
	digest, err := evidence.Commitment(evidence.Object(
		kv("workspace_id", quoted(workspace)), kv("policy_id", quoted(id)), kv("version", quoted(version)), kv("rule", text(rule))))
	if err != nil {
		return nil, refuse(http.StatusConflict, "Policy version could not be created: its rule has no canonical JSON")
	}
	return &policy{
		workspace: workspace, id: id, name: name, version: version, rule: rule, digest: digest, active: active, created: isoTime(s.now()),
	}, nil
}

// refundPolicy is the policy that LoopGrid ships.
func (s *Server) refundPolicy() *policy {
	rule := newObject()
	rule.set("type", "amount_threshold")
	rule.set("field", "amount")
	rule.set("auto_approve_max", integer("500"))
	rule.set("hard_limit", integer("1500"))
	rule.set("currency", "USD")
	p, err := s.newPolicy(defaultWorkspace, "refund-policy", "Refund authority", "17.3", rule, true)
	if err != nil {
		panic(err) // The rule stands above.
	}
	return p
}

func (p *policy) answer() jsontext.Value {
	return evidence.Object(
		kv("workspace_id", quoted(p.workspace)),
		kv("policy_id", quoted(p.id)),
		kv("name", quoted(p.name)),
		kv("version", quoted(p.version)),
		kv("rule", text(p.rule)),
		kv("policy_digest", quoted(p.digest)),
		kv("active", boolean(p.active)),
		kv("created_at", quoted(p.created)),
	)
}

// listPolicies is GET /api/v1/workspaces/{w}/policies.
func (s *Server) listPolicies(r *request) (*answer, error) {
	workspace := r.params[0]
	if err := s.authorize(r, workspace, scopeRead); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []jsontext.Value
	for _, p := range s.policies[workspace] {
		list = append([]jsontext.Value{p.answer()}, list...)
	}
	return answerJSON(array(list))
}

// createPolicy is POST /api/v1/workspaces/{w}/policies.
func (s *Server) createPolicy(r *request) (*answer, error) {
	workspace := r.params[0]
	if err := s.authorize(r, workspace, scopeAdmin); err != nil {
		return nil, err
	}
	f := r.form
	p, err := s.newPolicy(workspace, f.str("policy_id"), f.str("name"), f.str("version"), f.obj("rule"), f.values["active"] == true)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.policies[workspace] {
		if other.id == p.id && other.version == p.version {
			return nil, refuse(http.StatusConflict, "Policy version could not be created: this version exists")
		}
	}
	if !s.charge(len(text(p.rule))) {
		return nil, errFull()
	}
	if p.active {
		for _, other := range s.policies[workspace] {
			if other.id == p.id {
				other.active = false
			}
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
	result, err := active.evaluate(r.form.obj("proposed_action"), r.form.obj("authority"), r.form.obj("context"))
	if err != nil {
		return nil, err
	}
	return answerJSON(result, text(active.rule))
}

// evaluate applies the policy to an action. The error is an exception of LoopGrid's arithmetic.
func (p *policy) evaluate(action, authority, context *object) (jsontext.Value, error) {
	commitment, err := evidence.Commitment(evidence.Object(
		kv("proposed_action", text(action)), kv("authority", text(authority)), kv("context", text(context))))
	if err != nil {
		return nil, errInternal
	}
	result := func(decision, reason string, more ...evidence.Field) jsontext.Value {
		fields := []evidence.Field{
			kv("policy_id", quoted(p.id)), kv("version", quoted(p.version)), kv("decision", quoted(decision)), kv("reason", quoted(reason)),
			kv("policy_digest", quoted(p.digest)), kv("input_commitment", quoted(commitment)),
		}
		return evidence.Object(append(append(fields, more...), kv("rule", text(p.rule)))...)
	}
	if p.rule.get("type") != "amount_threshold" {
		return result(manualReviewRequired, "unsupported_policy_rule"), nil
	}
	name := any("amount")
	if value, given := p.rule.values["field"]; given {
		name = value
	}
	field, _ := name.(string)
	amount := action.get(field)
	exact, isNumber := exactNumber(amount)
	if !isNumber {
		return result(manualReviewRequired, "amount_missing_or_invalid"), nil
	}
	auto, hard, limit, err := p.limits(authority.get("limit_usd"))
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
	return result(decision, reason,
		kv("amount", text(amount)), kv("human_approval_threshold", text(auto)), kv("hard_limit", text(limit))), nil
}

// limits returns the amount up to which an action is allowed without a person, the policy's own hard limit, and the limit in force: the lower of
// the hard limit and that of the authority. A limit of 0 counts as none, and an authority that is no number counts only where the policy has no
// hard limit.
func (p *policy) limits(authority any) (auto, hard, limit float64, err error) {
	if hard, err = pythonFloat(p.rule.get("hard_limit")); err != nil {
		return 0, 0, 0, err
	}
	if auto, err = pythonFloat(p.rule.get("auto_approve_max")); err != nil {
		return 0, 0, 0, err
	}
	_, isNumber := exactNumber(authority)
	if hard != 0 && !isNumber {
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
func exactNumber(value any) (*big.Float, bool) {
	switch v := value.(type) {
	case bool:
		if v {
			return big.NewFloat(1), true
		}
		return new(big.Float), true
	case integer:
		n, ok := new(big.Int).SetString(string(v), 10)
		if !ok {
			return nil, false
		}
		return new(big.Float).SetInt(n), true
	case float64:
		return new(big.Float).SetFloat64(v), true // Not NaN: an action with one has no commitment.
	}
	return nil, false
}

// pythonFloat is Python's float(value or 0).
func pythonFloat(value any) (float64, error) {
	if !truthy(value) {
		return 0, nil
	}
	var digits string
	switch v := value.(type) {
	case bool:
		return 1, nil
	case float64:
		return v, nil
	case integer:
		digits = string(v)
	case string:
		digits = strings.TrimSpace(v)
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, errInternal
	}
	return f, nil
}

// array returns a list of JSON texts as one.
func array(list []jsontext.Value) jsontext.Value {
	out := jsontext.Value("[")
	for i, value := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	return append(out, ']')
}
