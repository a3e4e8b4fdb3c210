// The `ai` package with `@ai-sdk/openai-compatible`.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { assert, key, model, number, pixel, refused, url, weather } from "./said.mjs";

const provider = createOpenAICompatible({
  name: "gateway",
  apiKey: key,
  baseURL: `${url}/api/v1`,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const common = { model: provider(model), maxRetries: 0 };

const plain = await generateText({ ...common, prompt: "Hello" });
assert.equal(plain.text, "A plain answer.");
assert.equal(plain.finishReason, "stop");
assert.ok(plain.usage.outputTokens > 0);

const streamed = streamText({ ...common, prompt: "Hello" });
let text = "";
for await (const piece of streamed.textStream) text += piece;
assert.equal(text, "A streamed answer.");

const asked = [];
const answered = await generateText({
  ...common,
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: "What is the weather?" },
        { type: "image", image: Buffer.from(pixel, "base64"), mediaType: "image/png" },
      ],
    },
  ],
  tools: {
    weather: tool({
      inputSchema: jsonSchema(weather),
      execute: async ({ city }) => {
        asked.push(city);
        return "Rain";
      },
    }),
  },
  stopWhen: stepCountIs(3),
});
assert.deepEqual(asked, ["Oslo"]);
assert.equal(answered.text, "It rains in Oslo.");

const shaped = await generateText({
  ...common,
  prompt: "A number",
  output: Output.object({ schema: jsonSchema(number) }),
});
assert.deepEqual(shaped.output, { n: 1 });

await refused(429, () => generateText({ ...common, prompt: "Hello" }));
console.log("done");
