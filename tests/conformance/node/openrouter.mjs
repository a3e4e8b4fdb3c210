// The `@openrouter/sdk` package: every method that has a counterpart at the gateway, but those that
// need an intern at work.
import { readdirSync, readFileSync } from "node:fs";
import { HTTPClient, OpenRouter } from "@openrouter/sdk";
import { assert, key, model, url } from "./said.mjs";

const [author, slug] = model.split("/");
const messages = [{ role: "user", content: "Hello" }];
const made = new Set();
const httpClient = new HTTPClient();
httpClient.addHook("beforeRequest", (request) => {
  const path = new URL(request.url).pathname.replace(/^\/api\/v1/, "");
  made.add(`${request.method} ${path}`);
});
const clientOf = (apiKey) =>
  new OpenRouter({ apiKey, serverURL: `${url}/api/v1`, httpClient, retryConfig: { strategy: "none" } });
const mine = clientOf(key);
const manager = clientOf(process.env.GATEWAY_MANAGEMENT_KEY);
const whole = async (pages) => {
  const { value } = await (await pages)[Symbol.asyncIterator]().next();
  return value.result;
};
const ids = ({ data }) => data.map(({ id }) => id);

async function history() {
  const id = process.env.GATEWAY_WORKSPACE;
  const updateWorkspaceRequest = { isObservabilityIoLoggingEnabled: true, ioLoggingSamplingRate: 1 };
  await manager.workspaces.update({ id, updateWorkspaceRequest });
  const answer = await mine.chat.send({ chatRequest: { model, messages } });
  await mine.responses.send({ responsesRequest: { model, input: "Hello" } });
  assert.equal((await mine.generations.getGeneration({ id: answer.id })).data.id, answer.id);
  let content;
  for (let tries = 0; !content && tries < 100; tries += 1) {
    content = await manager.generations.listGenerationContent({ id: answer.id }).catch(() => null);
    if (!content) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(JSON.stringify(content).includes("Hello"));
  const said = { generationId: answer.id, category: "other" };
  await manager.generations.submitFeedback({ submitGenerationFeedbackRequest: said });
  assert.ok((await manager.credits.getCredits()).data.totalUsage >= 0);
  await manager.analytics.getUserActivity();
  assert.ok((await manager.analytics.getAnalyticsMeta()).data.metrics.length);
  await manager.analytics.queryAnalytics({ requestBody: { metrics: ["request_count"] } });
}

async function catalogue() {
  assert.ok(ids(await whole(mine.models.list())).includes(model));
  assert.ok(ids(await whole(mine.models.listForUser({ bearer: key }))).includes(model));
  assert.ok((await mine.models.count()).data.count > 0);
  assert.equal((await mine.models.get({ author, slug })).data.id, model);
  assert.ok((await mine.providers.list()).data.length);
  await mine.endpoints.listZdrEndpoints();
  const [endpoint] = (await mine.endpoints.list({ author, slug })).data.endpoints;
  assert.equal(endpoint.supportsToolChoice.auto, true);
}

async function keys() {
  const requestBody = { name: "k", limit: 2, external: { user: "customer-7" } };
  const { data, key: string } = await manager.apiKeys.create({ requestBody });
  assert.ok(string.startsWith("sk-"));
  assert.equal(data.externalUser, "customer-7");
  const hash = data.hash;
  assert.equal((await manager.apiKeys.get({ hash })).data.name, "k");
  assert.ok((await manager.apiKeys.list()).data);
  const renamed = await manager.apiKeys.update({ hash, requestBody: { name: "m" } });
  assert.equal(renamed.data.name, "m");
  assert.ok((await manager.apiKeys.delete({ hash })).deleted);
  const about = (await mine.apiKeys.getCurrentKeyMetadata()).data;
  assert.deepEqual(about.allowedDataRegions, ["global", "europe", "us"]);
  assert.equal(about.freeModelDailyRequests.limit, -1);
}

async function byok() {
  const provider = (await mine.providers.list()).data[0].slug;
  const said = { provider, key: "sk-mine-0123456789abcdef", isRequired: true };
  const { data } = await manager.byok.create({ createBYOKKeyRequest: said });
  assert.deepEqual([data.isRequired, data.isByokOnly], [true, false]);
  const { id } = data;
  assert.deepEqual((await manager.byok.get({ id })).data, data);
  assert.ok(ids(await whole(manager.byok.list())).includes(id));
  const changed = await manager.byok.update({ id, updateBYOKKeyRequest: { isByokOnly: true } });
  assert.ok(changed.data.isByokOnly);
  assert.ok((await manager.byok.delete({ id })).deleted);
}

async function workspaces(user) {
  const space = { name: "W", slug: `w-${process.pid}-${Date.now()}` };
  const { id } = (await manager.workspaces.create({ createWorkspaceRequest: space })).data;
  assert.ok(ids(await whole(manager.workspaces.list())).includes(id));
  await manager.workspaces.update({ id, updateWorkspaceRequest: { name: "V" } });
  assert.equal((await manager.workspaces.get({ id })).data.name, "V");
  const members = { userIds: [user] };
  await manager.workspaces.bulkAddMembers({ id, bulkAddWorkspaceMembersRequest: members });
  assert.equal((await whole(manager.workspaces.listMembers({ id }))).data.length, 1);
  await manager.workspaces.bulkRemoveMembers({ id, bulkRemoveWorkspaceMembersRequest: members });
  const place = { workspaceRef: id, interval: "daily" };
  const upsertWorkspaceBudgetRequest = { limitUsd: 3 };
  await manager.workspaces.setBudget({ ...place, upsertWorkspaceBudgetRequest });
  assert.equal((await manager.workspaces.getBudget(place)).data.limitUsd, 3);
  assert.equal((await manager.workspaces.listBudgets({ workspaceRef: id })).data.length, 1);
  await manager.workspaces.deleteBudget(place);
  assert.ok((await manager.workspaces.delete({ id })).deleted);
}

async function guardrails(user) {
  const rails = manager.guardrails;
  const { id } = (await rails.create({ createGuardrailRequest: { name: "g" } })).data;
  assert.ok(ids(await whole(rails.list())).includes(id));
  await rails.update({ id, updateGuardrailRequest: { name: "h" } });
  assert.equal((await rails.get({ id })).data.name, "h");
  const chosen = { keyHashes: [process.env.GATEWAY_KEY_HASH] };
  await rails.bulkAssignKeys({ id, bulkAssignKeysRequest: chosen });
  assert.equal((await whole(rails.listGuardrailKeyAssignments({ id }))).data.length, 1);
  assert.equal((await whole(rails.listKeyAssignments())).data.length, 1);
  await rails.bulkUnassignKeys({ id, bulkUnassignKeysRequest: chosen });
  const members = { memberUserIds: [user] };
  await rails.bulkAssignMembers({ id, bulkAssignMembersRequest: members });
  assert.equal((await whole(rails.listGuardrailMemberAssignments({ id }))).data.length, 1);
  assert.equal((await whole(rails.listMemberAssignments())).data.length, 1);
  await rails.bulkUnassignMembers({ id, bulkUnassignMembersRequest: members });
  assert.ok((await rails.delete({ id })).deleted);
}

async function presets() {
  const kept = mine.presets;
  const chatRequest = { model, messages };
  await kept.createPresetsChatCompletions({ slug: "p", chatRequest });
  const messagesRequest = { ...chatRequest, maxTokens: 5 };
  await kept.createPresetsMessages({ slug: "p", messagesRequest });
  await kept.createPresetsResponses({ slug: "p", responsesRequest: { model, input: "x" } });
  assert.equal((await whole(kept.list())).data[0].slug, "p");
  assert.equal((await kept.get({ slug: "p" })).data.slug, "p");
  assert.equal((await whole(kept.listVersions({ slug: "p" }))).data.length, 3);
  assert.equal((await kept.getVersion({ slug: "p", version: "1" })).data.version, 1);
}

async function internsAndVault() {
  const { interns, vault } = mine;
  const intern = await interns.createIntern({ createInternRequest: { name: "research" } });
  const internId = intern.id;
  assert.equal((await interns.getIntern({ internId })).name, "research");
  assert.ok(ids(await interns.listInterns()).includes(internId));
  await interns.updateIntern({ internId, updateInternRequest: { name: "science" } });
  const vaultSecretWriteRequest = { hosts: ["a.example"], value: "v" };
  await vault.storeVaultSecret({ name: "token", vaultSecretWriteRequest });
  assert.equal((await vault.listVaultSecrets()).data[0].name, "token");
  const vaultSecretCopyRequest = { names: ["token"] };
  await vault.copyVaultSecretsToIntern({ internId, vaultSecretCopyRequest });
  await vault.storeInternVaultSecret({ internId, name: "other", vaultSecretWriteRequest });
  assert.equal((await vault.listInternVaultSecrets({ internId })).data.length, 2);
  await vault.deleteInternVaultSecret({ internId, name: "other" });
  await vault.deleteVaultSecret({ name: "token" });
}

// What the tests of decisions call, and what only an intern at work answers.
const elsewhere = new Set([
  "POST /api/alpha/decisions",
  "POST /systemone",
  "DELETE /interns/{}",
  "POST /interns/{}/provision",
  "POST /interns/{}/suspend",
  "POST /interns/{}/chat/completions",
]);
const plain = (path) => path.replaceAll(/\{[^}]*\}/g, "{}");

function known() {
  const folder = new URL("./node_modules/@openrouter/sdk/esm/funcs/", import.meta.url);
  const found = new Set();
  for (const name of readdirSync(folder).filter((each) => each.endsWith(".js"))) {
    const text = readFileSync(new URL(name, folder), "utf8");
    const path = text.match(/pathToFunc\("([^"]+)"\)/)?.[1];
    const method = text.match(/method: "([A-Z]+)"/)?.[1];
    if (path && method) found.add(`${method} ${plain(path)}`);
  }
  return found;
}

async function missed() {
  const { paths } = await (await fetch(`${url}/api/v1/openapi.json`)).json();
  const ours = new Set(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((each) => `${each.toUpperCase()} ${plain(path.replace("/api/v1", ""))}`),
    ),
  );
  const shared = [...known()].filter((each) => ours.has(each) && !elsewhere.has(each));
  assert.ok(shared.length > 50, String(shared.length));
  // The template with the fewest names is the one that was meant.
  const templates = shared.toSorted((a, b) => a.split("{}").length - b.split("{}").length);
  const meant = (call) =>
    templates.find((each) => new RegExp(`^${each.replaceAll("{}", "[^/]+")}$`).test(call));
  const called = new Set([...made].map(meant));
  return shared.filter((each) => !called.has(each));
}

// History first: a workspace's wish to keep contents reaches keys in use a moment later.
await history();
await catalogue();
await keys();
await byok();
await workspaces(process.env.GATEWAY_USER);
await guardrails(process.env.GATEWAY_USER);
await presets();
await internsAndVault();
assert.deepEqual(await missed(), []);
console.log("done");
