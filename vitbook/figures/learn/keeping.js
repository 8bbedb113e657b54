import { CHANGES } from "./run.js";

/** A shelf in the browser's store for what one figure keeps; without a store it keeps nothing and says so. */
export function shelved(key) {
  const open = () => new Promise((resolve, reject) => {
    const asked = indexedDB.open("vitbook-learn", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("runs");
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
  const act = async (mode, of) => {
    const base = await open();
    try {
      return await new Promise((resolve, reject) => {
        const done = base.transaction("runs", mode), asked = of(done.objectStore("runs"));
        done.oncomplete = () => resolve(asked.result);
        done.onabort = () => reject(done.error); // a full store says so last
      });
    } finally {
      base.close();
    }
  };
  return {
    get: () => act("readonly", (shelf) => shelf.get(key)).catch(() => null),
    put: (value) => act("readwrite", (shelf) => shelf.put(value, key)).then(() => true, () => false),
  };
}

/** Whether what was kept is a run of this page: by an older or another page, or damaged, it is not. */
export function isRun(kept, { sizes, steps }) {
  const known = (kind) => kind === "none" || Object.hasOwn(CHANGES, kind);
  return Boolean(kept) && Object.hasOwn(sizes, kept.size) && known(kept.change) && [0, 1, 2, 3, 4].includes(kept.seed) && Math.abs(kept.rate) <= 4 &&
    Array.isArray(kept.runs) && kept.runs.length > 0 && kept.runs.length < 3 && kept.runs.every(({ kind, told, state }) =>
    known(kind) && state?.step >= 0 && state.step <= steps && Array.isArray(told) &&
    told.every((each) => each?.answers && each.step >= 0 && each.accuracy >= 0 && each.seconds >= 0));
}
