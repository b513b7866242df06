// Unpacks the browser of @sparticuz/chromium into the folder that TMPDIR names; prints its path.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.argv[2] + "/"));
const chromium = require("@sparticuz/chromium");
console.log(await (chromium.default ?? chromium).executablePath());
