"use strict";
// Keys for who answers many. One key alone counts only where nobody types, and only while they are switched on
// (WCAG 2.1.4); a screen reader keeps its own keys. Nothing is sent that was not confirmed.
(() => {
  const OFF = "sluice-keys-off";
  const all = (what) => [...document.querySelectorAll(what)];
  const first = (what) => document.querySelector(what);
  const shown = (one) => one && one.getClientRects().length > 0;
  const isOff = () => localStorage.getItem(OFF) === "yes";
  const types = (one) => one.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");

  function move(by) {
    const links = all("[data-key=open]");
    const row = document.activeElement.closest("[data-key=row]");
    const at = row ? links.indexOf(row.querySelector("[data-key=open]")) : by > 0 ? -1 : links.length;
    const next = links[Math.min(links.length - 1, Math.max(0, at + by))];
    if (next) next.focus();
  }

  function pick() {
    const row = document.activeElement.closest("[data-key=row]");
    const box = row && row.querySelector("input[type=checkbox]");
    if (box) box.click();
  }

  function follow(what) {
    const link = all(what).find(shown);
    if (link) link.click();
  }

  function chosen(form) {
    return form.id ? all(`input[form=${form.id}]:checked`) : [];
  }

  // How many escalations the boxes stand for: a group's box has the ids of all.
  const count = (boxes) => boxes.reduce((sum, box) => sum + box.value.split(" ").length, 0);

  function confirmAnswer(decision) {
    const form = first("form[data-key=answer]");
    const button = form && form.querySelector(`button[value=${decision}]`);
    if (!button) return;
    const isList = form.id === "answers";
    if (isList && !chosen(form).length) pick();
    const boxes = chosen(form);
    if (isList && !boxes.length) return;
    const dialog = first("#confirm");
    const why = dialog.querySelector("textarea");
    const yes = dialog.querySelector("[data-key=yes]");
    dialog.querySelector("h2").textContent = isList ? `${button.textContent}: ${count(boxes)}` : `${button.textContent} this one?`;
    yes.textContent = button.textContent;
    yes.className = button.className;
    why.value = form.elements.justification.value;
    yes.onclick = () => {
      if (!why.reportValidity()) return;
      form.elements.justification.value = why.value;
      dialog.close();
      form.requestSubmit(button);
    };
    dialog.showModal();
    why.focus();
  }

  const KEYS = {
    j: () => move(1),
    k: () => move(-1),
    x: pick,
    a: () => confirmAnswer("approve"),
    d: () => confirmAnswer("deny"),
    n: () => follow("a[rel=next]"),
    p: () => follow("a[rel=prev]"),
    u: () => follow("[data-key=list]"),
    "/": () => first("[data-key=search]")?.focus(),
    "?": () => first("#keys").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (types(event.target) || first("dialog[open]") || (isOff() && event.key !== "?")) return;
    event.preventDefault();
    act();
  });

  document.addEventListener("click", (event) => {
    const what = event.target.dataset ? event.target.dataset.key : "";
    if (what === "close") event.target.closest("dialog").close();
    if (what === "help") first("#keys").showModal();
  });

  document.addEventListener("change", (event) => {
    if (event.target.id === "keys-on") localStorage.setItem(OFF, event.target.checked ? "no" : "yes");
    const form = first("#answers");
    if (form && event.target.form === form) first("#many").textContent = `Answer those selected: ${count(chosen(form))}`;
  });

  document.addEventListener("DOMContentLoaded", () => {
    const box = first("#keys-on");
    if (box) box.checked = !isOff();
    const filters = first("[data-key=filters]");
    if (filters && matchMedia("(min-width: 641px)").matches) filters.open = true;
  });
})();
