package credential

import "strings"

// BedrockHosts are the hosts that claude asks its model at, with what
// [Bedrock.Environment] has returned: the model itself, and the list of models
// (AWS General Reference, Amazon Bedrock endpoints). There are none without a
// region.
func BedrockHosts(environment []string) []string {
	for _, entry := range environment {
		region, found := strings.CutPrefix(entry, "AWS_REGION=")
		if !found || region == "" {
			continue
		}
		domain := ".amazonaws.com"
		if strings.HasPrefix(region, "cn-") {
			domain += ".cn"
		}
		return []string{"bedrock-runtime." + region + domain, "bedrock." + region + domain}
	}
	return nil
}
