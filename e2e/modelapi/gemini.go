package modelapi

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// gemini plays Google's generateContent, always as one piece of a stream.
func (v *Vendor) gemini(w http.ResponseWriter, body []byte, number int) {
	var asked struct {
		Tools []struct {
			FunctionDeclarations []struct {
				Name                 string
				Parameters           json.RawMessage
				ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
			}
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse json.RawMessage `json:"functionResponse"`
			}
		}
	}
	_ = json.Unmarshal(body, &asked) // a request without tools gets a text
	var tools []offered
	for _, group := range asked.Tools {
		for _, f := range group.FunctionDeclarations {
			t := offered{Name: f.Name}
			for _, schema := range []json.RawMessage{f.Parameters, f.ParametersJSONSchema} {
				if len(schema) > 0 {
					_ = json.Unmarshal(schema, &t.Parameters) // an unknown tool is not called
				}
			}
			tools = append(tools, t)
		}
	}
	results := 0
	for _, content := range asked.Contents {
		for _, part := range content.Parts {
			if len(part.FunctionResponse) > 0 {
				results++
			}
		}
	}
	c := v.next(tools, results, number)
	part := object{"text": c.text}
	if c.tool != "" {
		part = object{"functionCall": object{"id": c.id, "name": c.tool, "args": c.arguments}}
	}
	events(w).data(object{
		"candidates":    []object{{"content": object{"role": "model", "parts": []object{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 20, "totalTokenCount": 120},
		"modelVersion":  "gemini-test", "responseId": fmt.Sprint(number),
	})
}
