// Asks for the translation of what is typed, and shows the newest answer: all texts as text, never as HTML.
(() => {
  const WAIT = 150; // milliseconds without a key before the server is asked
  const GONE = "The server does not answer. If it was ended, start it again and type on.";
  const settings = JSON.parse(document.getElementById("settings").textContent);
  const part = (id) => document.getElementById(id);
  let newest = new AbortController(); // of the newest question; those before are given up
  let timer;

  function row({ text, score }) {
    const cells = document.createElement("tr");
    const word = Object.assign(cells.insertCell(), { textContent: text, className: "word", lang: settings.target });
    word.dir = "auto";
    cells.insertCell().textContent = score.toFixed(3).replace("-", "\u2212");
    return cells;
  }

  function show({ translations, attention }) {
    part("problem").textContent = "";
    part("translation").removeAttribute("aria-busy");
    part("translation").textContent = translations[0].text;
    part("best").replaceChildren(...translations.map(row));
    part("ranking").hidden = part("attention").hidden = false;
    viewer.show(attention);
  }

  // Nothing that belongs to another text stays on the page.
  function clear(problem) {
    part("problem").textContent = problem;
    part("translation").removeAttribute("aria-busy");
    part("translation").textContent = "";
    part("ranking").hidden = part("attention").hidden = true;
  }

  async function answer(body, signal) {
    const response = await fetch("translate", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
      signal,
    });
    return response.json();
  }

  async function ask() {
    newest.abort();
    const own = (newest = new AbortController());
    const text = part("text").value;
    const body = new Blob([JSON.stringify({ text })]);
    if (!text.trim()) return clear("");
    if (body.size > settings.bytes) return clear(`This is too long: ${body.size} bytes, at most ${settings.bytes} are read.`);
    part("translation").setAttribute("aria-busy", "true");
    const found = await answer(body, own.signal).catch(() => ({ error: GONE }));
    if (own.signal.aborted) return;
    if (found.error) clear(found.error);
    else show(found);
  }

  part("text").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT);
  });
  if (part("text").value) ask(); // as a browser restores it
})();
