package credential

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestBedrockHosts(t *testing.T) {
	assert.DeepEqual(t, BedrockHosts([]string{"AWS_DEFAULT_REGION=x", "AWS_REGION=eu-central-1"}),
		[]string{"bedrock-runtime.eu-central-1.amazonaws.com", "bedrock.eu-central-1.amazonaws.com"})
	assert.DeepEqual(t, BedrockHosts([]string{"AWS_REGION=cn-north-1"}),
		[]string{"bedrock-runtime.cn-north-1.amazonaws.com.cn", "bedrock.cn-north-1.amazonaws.com.cn"})
	assert.Equal(t, len(BedrockHosts([]string{"AWS_REGION="})), 0)
	assert.Equal(t, len(BedrockHosts(nil)), 0)
}
