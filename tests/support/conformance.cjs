// An MCP server on standard streams that has what the public conformance suite asks servers for, and nothing else. The SDK comes with
// the suite, whose entry is the first argument.
const { createRequire } = require("node:module");
const { setTimeout: pause } = require("node:timers/promises");

const sdk = createRequire(process.argv[2]);
const { Server } = sdk("@modelcontextprotocol/sdk/server/index.js");
const { StdioServerTransport } = sdk("@modelcontextprotocol/sdk/server/stdio.js");
const schemas = sdk("@modelcontextprotocol/sdk/types.js");

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const text = (text) => ({ type: "text", text });
const image = { type: "image", data: PIXEL, mimeType: "image/png" };
const embedded = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const strings = (...names) => Object.fromEntries(names.map((name) => [name, { type: "string" }]));
const titled = (...names) => names.map((name, at) => ({ const: `value${at + 1}`, title: name }));

const server = new Server(
  { name: "conformance", version: "1" },
  { capabilities: { tools: {}, resources: { subscribe: true }, prompts: {}, logging: {}, completions: {} } },
);

const elicit = async (message, properties, required = []) => {
  const answer = await server.elicitInput({ message, requestedSchema: { type: "object", properties, required } });
  return text(`action=${answer.action}, content=${JSON.stringify(answer.content)}`);
};

const DEFAULTS = {
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
};
const OPTIONS = ["option1", "option2", "option3"];
const ENUMS = {
  untitledSingle: { type: "string", enum: OPTIONS },
  titledSingle: { type: "string", oneOf: titled("First Option", "Second Option", "Third Option") },
  legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
  untitledMulti: { type: "array", items: { type: "string", enum: OPTIONS } },
  titledMulti: { type: "array", items: { anyOf: titled("First Choice", "Second Choice", "Third Choice") } },
};

const TOOLS = {
  test_simple_text: () => [text("This is a simple text response for testing.")],
  test_image_content: () => [image],
  test_audio_content: () => [{ type: "audio", data: SILENCE, mimeType: "audio/wav" }],
  test_embedded_resource: () => [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
  test_multiple_content_types: () => [
    text("Multiple content types test:"),
    image,
    embedded("test://mixed-content-resource", "application/json", JSON.stringify({ test: "data", value: 123 })),
  ],
  test_error_handling: () => {
    throw new Error("This tool intentionally returns an error for testing");
  },
  test_tool_with_logging: async () => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await server.sendLoggingMessage({ level: "info", data });
      await pause(50);
    }
    return [text("logged")];
  },
  test_tool_with_progress: async (_, extra) => {
    const progressToken = extra._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      }
      await pause(50);
    }
    return [text("progressed")];
  },
  test_sampling: async ({ prompt }) => {
    const said = await server.createMessage({ messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 });
    return [text(`LLM response: ${said.content.text}`)];
  },
  test_elicitation: async ({ message }) => [await elicit(message, strings("username", "email"), ["username", "email"])],
  test_elicitation_sep1034_defaults: async () => [await elicit("defaults", DEFAULTS)],
  test_elicitation_sep1330_enums: async () => [await elicit("enums", ENUMS)],
  test_reconnection: async () => {
    await pause(100);
    return [text("reconnected")];
  },
  json_schema_2020_12_tool: () => [text("ok")],
};

const INPUTS = {
  test_sampling: { type: "object", properties: strings("prompt"), required: ["prompt"] },
  test_elicitation: { type: "object", properties: strings("message"), required: ["message"] },
  json_schema_2020_12_tool: {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: { address: { type: "object", properties: strings("street", "city") } },
    properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
    additionalProperties: false,
  },
};

server.setRequestHandler(schemas.ListToolsRequestSchema, () => ({
  tools: Object.keys(TOOLS).map((name) => ({ name, description: `Serves ${name}`, inputSchema: INPUTS[name] ?? { type: "object" } })),
}));
server.setRequestHandler(schemas.CallToolRequestSchema, async ({ params }, extra) => {
  try {
    return { content: await TOOLS[params.name](params.arguments ?? {}, extra) };
  } catch (error) {
    return { isError: true, content: [text(error.message)] };
  }
});

const RESOURCES = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PIXEL },
  "test://watched-resource": { mimeType: "text/plain", text: "watched" },
};
const fromTemplate = (uri) => {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id === undefined) throw new schemas.McpError(-32002, `no such resource: ${uri}`);
  return { mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
};

server.setRequestHandler(schemas.ListResourcesRequestSchema, () => ({
  resources: Object.entries(RESOURCES).map(([uri, { mimeType }]) => ({ uri, name: uri, description: uri, mimeType })),
}));
server.setRequestHandler(schemas.ListResourceTemplatesRequestSchema, () => ({
  resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" }],
}));
server.setRequestHandler(schemas.ReadResourceRequestSchema, ({ params: { uri } }) => ({
  contents: [{ uri, ...(RESOURCES[uri] ?? fromTemplate(uri)) }],
}));
server.setRequestHandler(schemas.SubscribeRequestSchema, async ({ params: { uri } }) => {
  await server.sendResourceUpdated({ uri });
  return {};
});
server.setRequestHandler(schemas.UnsubscribeRequestSchema, () => ({}));

const user = (content) => ({ role: "user", content });
const PROMPTS = {
  test_simple_prompt: [[], () => [user(text("This is a simple prompt for testing."))]],
  test_prompt_with_arguments: [
    ["arg1", "arg2"],
    ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  ],
  test_prompt_with_embedded_resource: [
    ["resourceUri"],
    ({ resourceUri }) => [
      user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
      user(text("Please process the embedded resource above.")),
    ],
  ],
  test_prompt_with_image: [[], () => [user(image), user(text("Please analyze the image above."))]],
};

server.setRequestHandler(schemas.ListPromptsRequestSchema, () => ({
  prompts: Object.entries(PROMPTS).map(([name, [names]]) => ({
    name,
    description: `Serves ${name}`,
    arguments: names.map((name) => ({ name, required: true })),
  })),
}));
server.setRequestHandler(schemas.GetPromptRequestSchema, ({ params }) => ({
  messages: PROMPTS[params.name][1](params.arguments ?? {}),
}));
server.setRequestHandler(schemas.CompleteRequestSchema, ({ params: { argument } }) => ({
  completion: { values: [`${argument.value}ing`], total: 1, hasMore: false },
}));

server.connect(new StdioServerTransport());
