/* Pages that are opened as files may start no worker: the search's script runs in a hidden frame then. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = this.inner = frame.contentWindow;
      const load = (source) => new Promise((done, failed) => {
        const script = inner.document.createElement("script");
        Object.assign(script, { src: source, onload: done, onerror: failed });
        inner.document.body.append(script);
      });
      inner.postMessage = (data) => this.tell(this, data);
      inner.importScripts = (...sources) => sources.reduce((before, one) => before.then(() => load(one)), Promise.resolve());
      load(address).then(() => {
        const waited = this.waiting;
        this.waiting = null;
        waited.forEach((data) => this.tell(inner, data));
      });
    }

    tell(target, data) {
      const event = new MessageEvent("message", { data });
      target.dispatchEvent(event);
      if (target === this && this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.tell(this.inner, data);
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
