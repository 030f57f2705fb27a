// The libraries the dashboard loads are those of the packages tested here.

import assert from "node:assert/strict";
import { test } from "node:test";

import { differences } from "../../web/vendor/update.mjs";

test("the vendored libraries equal the installed packages", async () => {
  assert.deepEqual(await differences(), []);
});
