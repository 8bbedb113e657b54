// A chapter that was read to its end has a tick in the contents, in this browser alone.
(() => {
  const KEPT = "vitbook-read";
  const folder = new URL(document.documentElement.dataset.content_root ?? "./", location.href).pathname;
  const page = location.pathname.replace(folder, "").replace(/^$/, "index.html");

  function read() {
    try { return new Set(JSON.parse(localStorage.getItem(KEPT)) ?? []); } catch { return new Set(); }
  }

  function mark() {
    const pages = read();
    for (const link of document.querySelectorAll(".bd-links a.internal")) {
      const target = new URL(link.getAttribute("href"), location.href).pathname.replace(folder, "");
      const done = pages.has(target);
      link.classList.toggle("vb-read", done);
      if (done) link.title = "read";
      else link.removeAttribute("title");
    }
  }

  mark();
  const end = document.querySelector(".prev-next-footer, .bd-footer-article, footer");
  if (end) {
    new IntersectionObserver((entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting) || scrollY < innerHeight) return;
      observer.disconnect();
      try { localStorage.setItem(KEPT, JSON.stringify([...read().add(page)])); } catch { return; }
      mark();
    }).observe(end);
  }
})();

// Paper holds the plots that the reader has not come near too.
addEventListener("beforeprint", () => {
  for (const image of document.querySelectorAll("img[loading=lazy]")) image.loading = "eager";
});
