// The `openai` package: responses.
import OpenAI from "openai";
import { assert, key, model, number, pixel, refused, url, weather } from "./said.mjs";

const client = new OpenAI({ apiKey: key, baseURL: `${url}/api/v1`, maxRetries: 0 });
const ask = (input, more = {}) => client.responses.create({ model, input, store: false, ...more });

const plain = await ask("Hello");
assert.equal(plain.output_text, "A plain answer.");
assert.ok(plain.usage.cost > 0);

const streamed = await client.responses
  .stream({ model, input: "Hello", store: false })
  .finalResponse();
assert.equal(streamed.output_text, "A streamed answer.");

const tools = [{ type: "function", name: "weather", parameters: weather, strict: true }];
const question = {
  role: "user",
  content: [
    { type: "input_text", text: "What is the weather?" },
    { type: "input_image", image_url: `data:image/png;base64,${pixel}`, detail: "auto" },
  ],
};
const more = {
  tools,
  reasoning: { effort: "low", summary: "auto" },
  include: ["reasoning.encrypted_content"],
};
const { output } = await ask([question], more);
assert.deepEqual(output.map((item) => item.type), ["reasoning", "function_call"]);
assert.equal(JSON.parse(output[1].arguments).city, "Oslo");
const result = { type: "function_call_output", call_id: output[1].call_id, output: "Rain" };
const answered = await ask([question, ...output, result], more);
assert.equal(answered.output_text, "It rains in Oslo.");

const format = { type: "json_schema", name: "n", strict: true, schema: number };
const shaped = await client.responses.parse({ model, input: "A number", store: false, text: { format } });
assert.deepEqual(JSON.parse(shaped.output_text), { n: 1 });

await refused(429, () => ask("Hello"));
console.log("done");
