// A real OpenID provider on loopback: node issuer.mjs MODULE PORT KEYS CALLBACK
// KEYS is a file with its private key set, so that a restart can rotate the keys.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [module, port, keys, callback] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(module));
const issuer = `http://127.0.0.1:${port}`;
const roles = (name) => (name.startsWith("admin") ? ["admin"] : ["staff"]);

const provider = new Provider(issuer, {
  jwks: JSON.parse(readFileSync(keys, "utf8")),
  clients: [
    {
      client_id: "machine-admin",
      client_secret: "a secret of the machine",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
    {
      client_id: "gateway",
      client_secret: "a secret of the gateway",
      redirect_uris: [callback],
    },
  ],
  cookies: { keys: ["only for tests"] },
  claims: { openid: ["sub", "roles"] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, roles: roles(id) }) }),
  extraTokenClaims: (_, token) => ({ roles: roles((token.clientId ?? "").replace("machine-", "")) }),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({
        scope: "tools",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: 600,
      }),
    },
  },
  pkce: { required: () => true },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
