// The `@anthropic-ai/sdk` package.
import Anthropic from "@anthropic-ai/sdk";
import { assert, key, model, number, pixel, refused, url, weather } from "./said.mjs";

const client = new Anthropic({ apiKey: key, baseURL: `${url}/api`, maxRetries: 0 });
const body = (messages, more = {}) => ({ model, max_tokens: 4096, messages, ...more });
const ask = (messages, more) => client.messages.create(body(messages, more));
const user = (content) => ({ role: "user", content });

const plain = await ask([user("Hello")]);
assert.equal(plain.content[0].text, "A plain answer.");
assert.equal(plain.stop_reason, "end_turn");
assert.ok(plain.usage.cost > 0);

const streamed = await client.messages.stream(body([user("Hello")])).finalMessage();
assert.equal(streamed.content[0].text, "A streamed answer.");

const question = user([
  { type: "text", text: "What is the weather?" },
  { type: "image", source: { type: "base64", media_type: "image/png", data: pixel } },
]);
const more = {
  tools: [{ name: "weather", input_schema: weather }],
  thinking: { type: "enabled", budget_tokens: 2048 },
};
const called = await ask([question], more);
assert.equal(called.content[0].type, "thinking");
assert.equal(called.content[0].thinking, "I look.");
const call = called.content.at(-1);
assert.equal(call.type, "tool_use");
assert.deepEqual(call.input, { city: "Oslo" });
const result = { type: "tool_result", tool_use_id: call.id, content: "Rain" };
const assistant = { role: "assistant", content: called.content };
const answered = await ask([question, assistant, user([result])], more);
assert.equal(answered.content.at(-1).text, "It rains in Oslo.");

const config = { format: { type: "json_schema", schema: number } };
const shaped = await ask([user("A number")], { output_config: config });
assert.deepEqual(JSON.parse(shaped.content[0].text), { n: 1 });

await refused(429, () => ask([user("Hello")]));
console.log("done");
