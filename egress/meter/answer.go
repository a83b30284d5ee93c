package meter

import (
	"bytes"
	"strconv"

	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// maxCount is far from an overflow of sums.
const maxCount = 1 << 40

// answer is what an answer of a model has reported so far. Streams repeat figures, which
// only grow.
type answer struct {
	model string
	// found is set by the first figure.
	found bool
	// input includes the tokens of cached and written; fresh, of Anthropic's API, does not.
	input, cached, written, toolInput int64
	fresh, cacheRead, cacheWrite      int64
	output, thoughts                  int64
}

// set records a value of an answer of one of the APIs:
//   - Anthropic's Messages: in "usage", and in "message.usage" of a stream's first event;
//   - OpenAI's Chat Completions and Responses: in "usage", and in "response.usage" of a
//     stream's last event;
//   - Gemini's generateContent: in "usageMetadata", and in "response.usageMetadata" of Code
//     Assist.
func (a *answer) set(path, value []byte, quoted bool) {
	for _, wrapper := range []string{"message.", "response."} {
		if rest, ok := bytes.CutPrefix(path, []byte(wrapper)); ok {
			path = rest
			break
		}
	}
	var figure *int64
	switch string(path) {
	case "model", "modelVersion":
		if name := string(value); quoted && value != nil && usage.ValidName(name) {
			a.model = name
		}
		return
	case "usage.input_tokens":
		figure = &a.fresh // or all of the input: see tokens
	case "usage.cache_read_input_tokens":
		figure = &a.cacheRead
	case "usage.cache_creation_input_tokens":
		figure = &a.cacheWrite
	case "usage.prompt_tokens", "usageMetadata.promptTokenCount":
		figure = &a.input
	case "usage.prompt_tokens_details.cached_tokens", "usage.input_tokens_details.cached_tokens", "usageMetadata.cachedContentTokenCount":
		figure = &a.cached
	case "usage.prompt_tokens_details.cache_write_tokens", "usage.input_tokens_details.cache_write_tokens":
		figure = &a.written
	case "usageMetadata.toolUsePromptTokenCount":
		figure = &a.toolInput
	case "usage.output_tokens", "usage.completion_tokens", "usageMetadata.candidatesTokenCount":
		figure = &a.output
	case "usageMetadata.thoughtsTokenCount":
		figure = &a.thoughts
	default:
		return
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && !quoted && n >= 0 && n <= maxCount {
		*figure, a.found = max(*figure, n), true
	}
}

// tokens returns the figures. Tokens of a cache are part of the input, except in
// Anthropic's API, which has no details of the input.
func (a *answer) tokens() usage.Tokens {
	return usage.Tokens{
		Input:     max(0, a.fresh+a.input+a.toolInput-a.cached-a.written),
		Output:    a.output + a.thoughts,
		CacheRead: a.cacheRead + a.cached, CacheWrite: a.cacheWrite + a.written,
	}
}
