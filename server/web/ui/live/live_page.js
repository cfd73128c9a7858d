import {el} from '../dom.js';
export class LivePage {
  constructor() { this.node = el('section', {class: 'live', hidden: true}); }
  start() {}
  stop() {}
  theme_changed() {}
}
