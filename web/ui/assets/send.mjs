// The send panel.

import { byId, checked } from "./dom.mjs";
import { errorText, milliseconds, parseArguments } from "./format.mjs";

const recipients = {
  group: { label: "Group name", placeholder: "room-1", list: "joined" },
  user: { label: "User id", placeholder: "alice", list: "" },
  all: { label: "", placeholder: "", list: "" },
};

/** @param {import("./session.mjs").Session} session */
export function startSend(session) {
  const form = byId("send");
  form.addEventListener("change", (event) => {
    if (event.target.name === "to") showRecipient();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(session);
  });
  byId("body").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  showRecipient();
}

function showRecipient() {
  const { label, placeholder, list } = recipients[checked("to")];
  const input = byId("recipient");
  byId("recipient-field").hidden = label === "";
  byId("recipient-label").textContent = label;
  input.required = label !== "";
  input.placeholder = placeholder;
  input.setAttribute("list", list);
}

/** @param {import("./session.mjs").Session} session */
async function send(session) {
  byId("send-error").textContent = "";
  byId("send-done").textContent = "";
  const to = checked("to");
  const recipient = byId("recipient").value;
  const target = byId("target").value;
  try {
    const args = parseArguments(byId("body").value);
    const started = performance.now();
    if (to === "group") await session.invoke("SendToGroup", recipient, target, args);
    else if (to === "user") await session.invoke("SendToUser", recipient, target, args);
    else await session.invoke("SendToAll", target, args);
    byId("send-done").textContent = `Sent in ${milliseconds(performance.now() - started)} ms`;
  } catch (err) {
    byId("send-error").textContent = errorText(err);
  }
}
