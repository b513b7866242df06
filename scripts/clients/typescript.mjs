// Use a gateway with the official TypeScript SDK: `node typescript.mjs COMMAND ARGUMENTS`.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "fresh", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const search = { name: "tool_search", arguments: { query: "echo a message back" } };
const found = await client.callTool(search);
if (!found.content[0].text.includes("everything__echo")) throw new Error(found.content[0].text);
const call = { name: "everything__echo", arguments: { message: "hello" } };
const answer = await client.callTool({ name: "call_tool", arguments: call });
if (!answer.content[0].text.includes("hello")) throw new Error(answer.content[0].text);
await client.close();
console.log("TypeScript SDK: searched and called a real server");
