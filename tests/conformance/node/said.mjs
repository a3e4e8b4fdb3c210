// What every script asks, and how it looks at what it hears.
import assert from "node:assert/strict";

export { assert };
export const url = process.env.GATEWAY_URL;
export const key = process.env.GATEWAY_KEY;
export const model = process.env.GATEWAY_MODEL;
export const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const weather = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
export const number = {
  type: "object",
  properties: { n: { type: "integer" } },
  required: ["n"],
  additionalProperties: false,
};

export async function refused(status, ask) {
  await assert.rejects(ask, (error) => {
    assert.equal(error.status ?? error.statusCode, status, String(error));
    return true;
  });
}
