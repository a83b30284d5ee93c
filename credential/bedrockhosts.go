package credential

import "strings"

// BedrockHosts returns the hosts that claude needs with the result of
// [Bedrock.Environment]: those of models, and of the list of models (AWS General Reference,
// Amazon Bedrock endpoints). Without a region there are none.
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
