// A prediction before its answer: options that can be chosen, and an answer that is folded until
// one is. What was chosen stays with this reader, in this browser.
(() => {
  const KEPT = `vitbook-predictions:${location.pathname}`;

  const kept = (() => {
    try { return JSON.parse(localStorage.getItem(KEPT)) ?? {}; } catch { return {}; }
  })();

  function keep() {
    try { localStorage.setItem(KEPT, JSON.stringify(kept)); } catch { /* a browser that keeps nothing */ }
  }

  function make(name, properties = {}, ...children) {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  }

  function fold(paragraphs) {
    const chosen = make("span", { className: "vb-chosen" });
    const details = make("details", { className: "vb-answer-fold" },
      make("summary", {}, "The answer", chosen));
    paragraphs[0].before(details);
    details.append(...paragraphs);
    return { details, chosen };
  }

  for (const box of document.querySelectorAll(".vb-predict")) {
    const number = [...box.classList].map((name) => /^vb-predict-(\d+)$/.exec(name)?.[1]).find(Boolean);
    const answer = [...document.querySelectorAll(`.vb-answers-${number}`)];
    const options = [...(box.querySelector("ol")?.children ?? [])];
    if (!answer.length || !options.length) continue;

    const { details, chosen } = fold(answer);
    details.id = `prediction-${number}`;
    const question = box.querySelector("p:not(.admonition-title)") ?? box;
    question.id ||= `question-${number}`;
    box.setAttribute("role", "radiogroup");
    box.setAttribute("aria-labelledby", question.id);
    const link = make("a", { href: `#${details.id}` }, "The answer comes below");
    const said = make("p", { className: "vb-said" });
    said.setAttribute("role", "status");
    box.append(said);

    const choose = (place, isNew) => {
      chosen.textContent = ` · you chose ${place}`;
      details.open = true;
      if (isNew) said.replaceChildren(`You chose ${place}. `, link, ".");
    };
    link.addEventListener("click", () => { details.open = true; });

    options.forEach((option, index) => {
      const place = index + 1;
      const radio = make("input", { type: "radio", name: `prediction-${number}`, value: place });
      const label = make("label", {}, radio);
      const words = option.querySelector(":scope > p") ?? option;
      const text = make("span", {}, ...words.childNodes);
      label.append(text);
      words.append(label);
      radio.addEventListener("change", () => {
        kept[number] = place;
        keep();
        choose(place, true);
      });
      if (kept[number] === place) {
        radio.checked = true;
        choose(place, false);
      }
    });
  }

  // Who comes by a link to a place within an answer sees it.
  function reveal() {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* a lone %, which names itself */ }
    const details = name && document.getElementById(name)?.closest(".vb-answer-fold");
    if (details) details.open = true;
  }
  reveal();
  addEventListener("hashchange", reveal);
})();
