// The `openai` package: chat completions.
import OpenAI from "openai";
import { assert, key, model, number, pixel, refused, url, weather } from "./said.mjs";

const client = new OpenAI({ apiKey: key, baseURL: `${url}/api/v1`, maxRetries: 0 });
const ask = (messages, more = {}) => client.chat.completions.create({ model, messages, ...more });
const user = (content) => ({ role: "user", content });

const plain = await ask([user("Hello")]);
assert.equal(plain.choices[0].message.content, "A plain answer.");
assert.ok(plain.usage.cost > 0);

let text = "";
for await (const chunk of await ask([user("Hello")], { stream: true })) {
  text += chunk.choices[0]?.delta?.content ?? "";
}
assert.equal(text, "A streamed answer.");

const tools = [{ type: "function", function: { name: "weather", parameters: weather } }];
const question = user([
  { type: "text", text: "What is the weather?" },
  { type: "image_url", image_url: { url: `data:image/png;base64,${pixel}` } },
]);
const more = { tools, reasoning: { effort: "low" } };
const called = (await ask([question], more)).choices[0].message;
assert.equal(called.reasoning, "I look.");
const [call] = called.tool_calls;
assert.deepEqual(JSON.parse(call.function.arguments), { city: "Oslo" });
const result = { role: "tool", tool_call_id: call.id, content: "Rain" };
const answered = await ask([question, called, result], more);
assert.equal(answered.choices[0].message.content, "It rains in Oslo.");

const shape = { type: "json_schema", json_schema: { name: "n", strict: true, schema: number } };
const shaped = await ask([user("A number")], { response_format: shape });
assert.deepEqual(JSON.parse(shaped.choices[0].message.content), { n: 1 });

await refused(429, () => ask([user("Hello")]));
console.log("done");
