package agentconfig

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestSecretsInScriptsAndTexts(t *testing.T) {
	for text, secret := range map[string]bool{
		"export DEPLOY_TOKEN=a1b2c3d4e5f6a7b8\n":                              true,
		"#!/bin/sh\ncurl -H 'Authorization: Bearer 9f8e7d6c5b4a' https://x\n": true,
		"The password: `hunter2hunter2`\n":                                    true,
		"api_key = \"Xk29-dk20-Aks9-11\"\n":                                   true,
		"- `db_password=Corr3ct!horse`, as on staging\n":                      true,
		"secret sk-ant-api03-abcdefghijklmnop\n":                              true,
		"deploy --password hunter2hunter2 --now\n":                            true,
		"curl -u admin:hunter2hunter2 https://x\n":                            true,
		"curl --user \"admin:hunter2hunter2\" https://x\n":                    true,

		"deploy --password-file secrets/hunter2hunter2\n":   false,
		"deploy --token \"$TOKEN_OF_STAGE_2\"\n":            false,
		"curl -u \"admin:$PASSWORD2OFSTAGING\" https://x\n": false,
		"docker run --user 1000:1000 x\n":                   false,
		"export DEPLOY_TOKEN=$(cat ~/.token2)\n":            false,
		"export DEPLOY_TOKEN=$TOKEN_OF_STAGE_2\n":           false,
		"TOKEN_FILE=run1/secrets/deploy2\n":                 false,
		"Authorization: Bearer <token>\n":                   false,
		"max_tokens: 200000\n":                              false,
		"token = read_token_v2()\n":                         false,
		"const token = secretOfStage2;\n":                   false,
		"The token: a string of 40 characters\n":            false,
		"password: required since version2\n":               false,
		"token=process.env.DEPLOY_TOKEN2\n":                 false,
	} {
		_, _, err := clean("claude", "hooks/deploy.sh", []byte(text))
		assert.Check(t, is.Equal(err != nil, secret), text)
	}
}
