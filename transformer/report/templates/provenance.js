// Numbers of ours become buttons that open a dialog with the cards of the runs that they come from.
"use strict";
(() => {
  const dialog = document.getElementById("provenance");
  const body = document.getElementById("provenance-body");

  function anchor(run) {
    return "run-" + run.replace(/[^A-Za-z0-9_-]/g, "-");
  }

  function card(run) {
    const section = document.createElement("section");
    section.append(Object.assign(document.createElement("h3"), { textContent: run }));
    const details = document.getElementById(anchor(run));
    section.append(
      details
        ? details.querySelector(".card-of-run").cloneNode(true)
        : Object.assign(document.createElement("p"), { textContent: "This page was given no run of this name." }),
    );
    return section;
  }

  for (const cell of document.querySelectorAll("td[data-runs]")) {
    const runs = cell.dataset.runs.split(" ");
    const button = Object.assign(document.createElement("button"), { type: "button", className: "number" });
    button.append(...cell.childNodes);
    button.setAttribute("aria-haspopup", "dialog");
    button.title = `From ${runs.join(", ")}`;
    button.addEventListener("click", () => {
      body.replaceChildren(...runs.map(card));
      dialog.showModal();
    });
    cell.append(button);
  }
  document.documentElement.classList.add("script");
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // outside its content
})();
